#!/usr/bin/env python3
"""Real tools inside, in a git project with a .env in its root. A row whose tool is missing is skipped
with the reason. "plain" rows must work without namespaces as well, in a folder that holds no denied
entry (behaviour 5.4: the carved root itself is list-and-create-only)."""
import os
import pwd
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402

PY = "/usr/bin/python3"

# (name, tools it needs, script, text that its output must hold, works without namespaces too)
ROWS = [
    ("npm install, npm test", "node npm", """
mkdir -p dep app; cd dep; echo '{"name":"dep","version":"1.0.0","main":"i.js"}' > package.json; echo 'module.exports=42' > i.js
cd ../app; echo '{"name":"app","version":"1.0.0","scripts":{"test":"node t.js"}}' > package.json
echo 'if (require("dep") !== 42) process.exit(1); console.log("tested")' > t.js
npm install --no-audit --no-fund --install-links ../dep >/dev/null && npm test""", "tested", True),
    ("npm ci over node_modules that holds a .pem", "node npm", """
mkdir -p d a; cd d; echo '{"name":"d","version":"1.0.0"}' > package.json; echo x > k.pem; echo y > a.key; npm pack -s >/dev/null
cd ../a; echo '{"name":"a","version":"1.0.0","dependencies":{"d":"file:../d/d-1.0.0.tgz"}}' > package.json
npm install --no-audit --no-fund >/dev/null && npm ci --no-audit --no-fund >/dev/null && cat node_modules/d/a.key""", "y", True),
    ("node --test", "node", """
echo 'const t=require("node:test"); t("a", () => {})' > a.test.js; node --test a.test.js""", "pass 1", True),
    ("node local sockets, interfaces", "node", """
node -e 'const n=require("net"),o=require("os"); o.networkInterfaces(); const s=n.createServer(c=>c.end("x")).listen("s.sock",()=>
n.connect("s.sock").on("data",d=>{console.log("got "+d);s.close()}))'""", "got x", False),
    ("node cluster", "node", """
echo 'const c=require("cluster"); if(c.isPrimary){c.fork().on("exit",k=>console.log("worker "+k))}else process.exit(3)' > c.js
node c.js""",
     "worker 3", True),
    ("make and gcc", "make gcc", """
printf 'a: a.c\\n\\t$(CC) -O1 -o $@ $<\\n' > Makefile; echo 'int main(void){return 0;}' > a.c; make -j2 && ./a && echo built""",
     "built", True),
    ("ccache", "ccache gcc", """
export CCACHE_DIR=$PWD/cc; echo 'int x;' > b.c; ccache gcc -c b.c && ccache gcc -c b.c && echo cached""", "cached", True),
    ("cmake", "cmake gcc make", """
printf 'cmake_minimum_required(VERSION 3.20)\\nproject(p C)\\nadd_executable(p p.c)\\n' > CMakeLists.txt
echo 'int main(void){return 0;}' > p.c; cmake -S . -B b >/dev/null && cmake --build b >/dev/null && b/p && echo built""",
     "built", True),
    ("clang", "clang", "echo 'int main(void){return 0;}' > a.c; clang a.c -o a && ./a && echo built", "built", True),
    ("python venv", PY, f"{PY} -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'", "/v", True),
    ("python venv with pip", f"{PY} ensurepip", f"{PY} -m venv v && v/bin/pip --version && v/bin/pip list", "pip", True),
    ("multiprocessing Pool", PY, f"{PY} -c 'from multiprocessing import Pool; print(Pool(2).map(abs,[-1,-2]))'", "[1, 2]", False),
    ("multiprocessing Manager", PY, f"""{PY} -c 'from multiprocessing import Manager
m=Manager(); d=m.dict(); d[1]=2; print("manager", d[1])'""", "manager 2", False),
    ("shared_memory", PY, f"""{PY} -c 'from multiprocessing.shared_memory import SharedMemory as S
s=S(create=True,size=10); s.close(); s.unlink(); print("shm")'""", "shm", False),
    ("process pool", PY, f"""{PY} -c 'from concurrent.futures import ProcessPoolExecutor as P
print("sum", sum(P(2).map(abs, [1,-2])))'""", "sum 3", False),
    ("asyncio subprocess", PY, f"""{PY} -c 'import asyncio
async def m():
    p = await asyncio.create_subprocess_exec("echo","sub",stdout=-1); print((await p.communicate())[0].decode())
asyncio.run(m())'""", "sub", True),
    ("start_new_session", PY, f"{PY} -c 'import subprocess as s; print(s.run([\"true\"],start_new_session=True).returncode)'", "0", False),
    ("pty.spawn", PY, f"{PY} -c 'import pty; print(\"code\", pty.spawn([\"true\"]))'", "code 0", False),
    ("openpty", PY, f"{PY} -c 'import os; os.openpty(); print(\"pty\")'", "pty", False),
    ("script", "script", "script -qc 'echo typed' /dev/null", "typed", False),
    ("timeout in a shell", "timeout", "timeout 0.2 sleep 5; echo after $?", "after 124", False),
    ("setsid", "setsid", "setsid echo away; sleep 0.1", "away", False),
    ("process substitution", "bash", "bash -c 'diff <(echo a) <(echo a) && echo same'", "same", True),
    ("pipeline", "bash", "seq 1000 | sort -n | tail -1", "1000", True),
    ("here document", "bash", "bash -c 'cat <<<here'", "here", True),
    ("find -delete", "find", "mkdir -p x/y; touch x/y/z; find x -delete; ls -d x 2>&1", "No such", True),
    ("sed -i", "sed", "echo a > f; sed -i s/a/b/ f; cat f", "b", True),
    ("mv, cp -al, ln", "cp", "mkdir d; echo a > d/f; cp -al d e; ln d/f g; mv d h; stat -c %h g", "3", True),
    ("tar", "tar", "mkdir d; echo a > d/f; tar cf t.tar d; rm -r d; tar xf t.tar; cat d/f", "a", True),
    ("tar of the project", "tar", "cd {w}; tar czf plain/all.tgz --exclude=plain . 2>/dev/null; echo rc $?", "rc 0", False),
    ("rsync", "rsync", "mkdir d; echo a > d/f; rsync -a d/ e/; cat e/f", "a", True),
    ("sqlite3", "sqlite3", "sqlite3 d.db 'pragma journal_mode=wal; create table t(x); insert into t values(5); select x from t'", "5", True),
    ("/proc/self", "cat", "cat /proc/self/comm; readlink /proc/self/exe; ps -o pid= | wc -l; free >/dev/null && echo free", "free", True),
    ("/dev/shm", "sh", "echo x > /dev/shm/f && cat /dev/shm/f", "x", False),
    ("/dev/fd", "sh", "echo x | cat /dev/fd/0 - | head -1", "x", True),
    ("perl", "perl", "perl -MPOSIX -e 'print \"perl \", POSIX::floor(1.5)'", "perl 1", True),
    ("java", "java", "java -version 2>&1", "version", True),
    ("go", "go", "go version", "go version", True),
    ("cargo build", "cargo", "cargo init -q --vcs none --name c . && cargo build -q 2>&1 && ./target/debug/c", "Hello", True),
    ("tmux", "tmux", "export SHELL=/bin/sh; tmux -S t.sock -f /dev/null new-session -d 'sleep 5' && tmux -S t.sock ls", "1 windows", False),
    ("names and users", "getent", "getent passwd root; id -u", "root", True),
    ("ASan with the option", "gcc", "echo 'int main(void){return 0;}' > a.c; gcc -fsanitize=address a.c -o a && ./a && echo clean",
     "clean", True),
    ("file in the root", "sh", "cd {w}; echo a > new; mv new new2; rm new2; mkdir nd; rmdir nd; echo fine", "fine", False),
    ("no terminal, no input", "git", "cat; git -C {w} commit --allow-empty; echo over $?", "over", False),
]

GIT = [
    ("status, add, commit", "git add ok sub && git commit -qm one && git status --short && git log --oneline", "one"),
    ("stash", "echo b >> ok; git stash -q && git stash pop -q && git diff --stat", "ok"),
    ("branch, merge", "git commit -qam two; git switch -qc b && echo c > c && git add c && git commit -qm c && "
     "git switch -q - && git merge -q b && git log --oneline", "c"),
    ("rebase", "git switch -qc r HEAD~1 && echo r > r && git add r && git commit -qm r && git rebase -q b && git log --oneline", "r"),
    ("worktree", "git worktree add -q wt HEAD && ls wt && git worktree remove wt && echo removed", "removed"),
    ("clone --local", "git clone -q --local . plain/clone && ls plain/clone", "ok"),
    ("git mv across a pinned folder", "git mv c sub/c && git commit -qm mv && ls sub", "c"),
    ("os.replace across", f"echo x > x1; {PY} -c 'import os; os.replace(\"x1\", \"sub/x1\"); os.replace(\"sub/x1\", \"x1\")' && echo replaced", "replaced"),
    ("tag, gc, fsck", "git tag t && git gc -q && git fsck 2>&1; echo checked", "checked"),
    ("fetch, push to a path", "git init -q --bare plain/bare && git push -q plain/bare HEAD:refs/heads/x && git fetch -q plain/bare x && echo pushed",
     "pushed"),
    ("configuration refused", "git config a.b c || echo refused", "refused"),
    ("hooks refused", "echo x > .git/hooks/post-commit || echo refused", "refused"),
]


def missing(tools):
    for tool in tools.split():
        if tool == "ensurepip":
            if subprocess.run([PY, "-c", "import ensurepip"], capture_output=True).returncode != 0:
                return tool
        elif shutil.which(tool) is None:
            return tool
    return None


class Tools(unittest.TestCase):
    def run_row(self, w, mode, row):
        name, tools, script, wanted, _ = row
        folder = f"{w.w}/plain/" + "".join(c if c.isalnum() else "-" for c in name)
        os.mkdir(folder)
        w.give()
        cache = f"{w.base}/cache"
        os.makedirs(cache, exist_ok=True)
        w.give()
        options = ["--cache", cache] + (["--allow-ptrace", "yes"] if "ASan" in name else [])
        env = {}
        if tools == "cargo":
            home = pwd.getpwuid(os.geteuid()).pw_dir
            env = {"CARGO_HOME": f"{home}/.cargo", "RUSTUP_HOME": f"{home}/.rustup",
                   "PATH": os.path.dirname(shutil.which("cargo")) + ":/usr/bin:/bin"}
        done = w.confined(mode, ["bash", "-c", script.replace("{w}", w.w)], options, env=env, cwd=folder)
        self.assertIn(wanted, done.stdout, done.stderr)

    def test_tools(self):
        for user in world.USERS:
            for mode in world.modes(user) if user == world.USERS[-1] else world.modes(user).keys() & {"ns"}:
                w = world.World(user)
                self.addCleanup(w.close)
                for row in ROWS:
                    lacking = missing(row[1])
                    if lacking or (row[0] == "cargo build" and user != "root" and os.geteuid() == 0):
                        why = f"{lacking} is not installed" if lacking else "cargo is another user's here"
                        print(f"skipped: {row[0]} ({user}, {mode}): {why}", file=sys.stderr)
                        continue
                    if mode == "ns" or row[4]:
                        with self.subTest(tool=row[0], user=user, mode=mode):
                            self.run_row(w, mode, row)

    def test_git(self):
        for user in world.users_with_namespaces():
            w = world.World(user)
            self.addCleanup(w.close)
            for name, script, wanted in GIT:
                with self.subTest(git=name, user=user):
                    done = w.confined("ns", ["sh", "-c", script])
                    self.assertIn(wanted, done.stdout, done.stderr)
                    self.assertNotIn(".env", w.outside(["git", "-C", w.w, "ls-files"]).stdout)

    def secret_state(self, w, state):
        if state == "ignored":
            w.put(f"{w.w}/.gitignore", ".env\n")
        elif state.startswith("tracked"):
            # git reads a file that is as young as its index again ("racily clean"): refused, loudly
            os.utime(f"{w.w}/.env", (1000000000, 1000000000))
            w.outside(["git", "-C", w.w, "add", "-f", ".env"])
            w.outside(["git", "-C", w.w, "commit", "-qm", "secret"])
        text = world.SECRET + ("-changed-by-the-user" if state == "tracked, changed" else "") + "\n"
        if state == "tracked, changed":
            w.put(f"{w.w}/.env", text)
        w.give()
        return text

    def test_git_never_touches_a_masked_file(self):
        """add -A, commit -a, stash -u, reset --hard: none commits, empties or deletes it."""
        scripts = ["git add -A", "git commit -qam all", "git stash -u -q", "git reset -q --hard",
                   "git add -A; git commit -qm x", "git clean -fdx"]
        for user in world.users_with_namespaces():
            for state in ("ignored", "untracked", "tracked", "tracked, changed"):
                w = world.World(user)
                self.addCleanup(w.close)
                w.outside(["git", "-C", w.w, "add", "ok"])
                w.outside(["git", "-C", w.w, "commit", "-qm", "base"])
                text = self.secret_state(w, state)
                for script in scripts:
                    w.put(f"{w.w}/ok", f"changed for {script}\n")
                    w.give()
                    with self.subTest(user=user, state=state, script=script):
                        done = w.confined("ns", ["sh", "-c", script])
                        if state in ("ignored", "untracked", "tracked") and "clean" not in script:
                            self.assertEqual(done.returncode, 0, done.stderr)
                        with open(f"{w.w}/.env") as file:
                            self.assertEqual(file.read(), text)
                        tracked = w.outside(["git", "-C", w.w, "ls-tree", "-r", "HEAD"]).stdout
                        self.assertEqual(".env" in tracked, state.startswith("tracked"))
                        if state.startswith("tracked"):
                            blob = w.outside(["git", "-C", w.w, "show", "HEAD:.env"]).stdout
                            self.assertEqual(blob, world.SECRET + "\n")

    def test_b123_linked_worktree(self):
        for user in world.users_with_namespaces():
            w = world.World(user)
            self.addCleanup(w.close)
            w.outside(["git", "-C", w.w, "commit", "-q", "--allow-empty", "-m", "base"])
            w.outside(["git", "-C", w.w, "worktree", "add", "-q", f"{w.base}/wt"])
            main, w.w = w.w, f"{w.base}/wt"
            done = w.confined("ns", ["sh", "-c", f"echo a > a; git add a && git commit -qm linked && git log --oneline; "
                                     f"git config a.b c || echo no-config; echo x > {main}/.git/hooks/pre-commit || echo no-hook; "
                                     "rm -f .git || echo no-rm"])
            for word in ("linked", "no-config", "no-hook", "no-rm"):
                self.assertIn(word, done.stdout, done.stderr)
            w.w = main

    def test_folder_below_the_top(self):
        for user in world.USERS:
            w = world.World(user)
            self.addCleanup(w.close)
            w.outside(["git", "-C", w.w, "add", "ok", "plain/ok"])
            w.outside(["git", "-C", w.w, "commit", "-qm", "base"])
            done = subprocess.run(world.as_user(user) + [w.bin, "--write", f"{w.w}/plain", "--cwd", f"{w.w}/plain", "--", "git",
                                  "status", "--short", "--untracked-files=no"],
                                  env=w.environment(), capture_output=True, text=True, timeout=30)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            for mode in world.modes(user):
                done = subprocess.run(world.as_user(user) + [w.bin] + world.MODES[mode] + ["--write", f"{w.w}/plain", "--cwd",
                                      f"{w.w}/plain", "--", "cat", "../ok", "../.env", "../sub/.env"],
                                      env=w.environment(), capture_output=True, text=True, timeout=30)
                self.assertEqual(done.stdout, "fine\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
