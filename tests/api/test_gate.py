"""The gate's scenarios: deny list, paths, git metadata, modes, the cache. Behaviour 1 and 8."""

import os
import pwd
import resource
import signal
import unittest

from gh import Case, Service, close_checked, git, save, until

COMMANDS = [{"name": "test", "program": "cargo", "args": ["test"]},
            {"name": "check", "program": "sh", "args": ["-c", "make check"]},
            {"name": "clean", "program": "rm", "args": ["-rf", "build"]}]
ALONE = {"autonomous": {"allowed_agents": ["agent"]}, "permissions": {"allowed_commands": COMMANDS}}

MODES = ("act", "plan", "autonomous")
HOME = pwd.getpwuid(os.getuid()).pw_dir  # judged only; no test writes there


class DenyList(Case):
    CONFIG = {**ALONE, "permissions": {
        "allowed_commands": COMMANDS,
        "deny_paths": [".conf", "~/.ssh", "~/own", "~/own", "a["]}}

    def test_write_below_ssh(self):
        """S1: a write below ~/.ssh is denied in every mode, and nobody is asked"""
        for mode in MODES:
            session = self.open(mode)
            self.denied(self.s.write(session, HOME + "/.ssh/authorized_keys"), "deny_path",
                        "deny_list", "rule")
            self.denied(self.s.write(session, "~/.ssh/config"), "deny_path", "deny_list")
            self.assertEqual(self.pending_of(session), [])

    def test_read_below_ssh(self):
        """S2: the deny list comes before the silent allow of reads"""
        session = self.open()
        self.denied(self.s.decide(session, "read_file", "read", {"path": "~/.ssh/id_rsa"}),
                    "deny_path", "deny_list", "rule")
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "~/other"}), "auto",
                     "auto_allow", "rule")

    def test_own_files(self):
        """S3: the service's own configuration, state and tokens are denied without a question"""
        session = self.open()
        for path in (self.s.config_path, self.s.state,
                     self.s.state + "/tokens/approver.token", self.s.state + "/any/new"):
            for tool, action in (("write_file", "write"), ("read_file", "read"),
                                 ("delete_file", "delete")):
                self.denied(self.s.decide(session, tool, action, {"path": path}), "deny_path",
                            "deny_list")
        self.assertEqual(self.pending_of(session), [])

    def test_default_configuration_folder(self):
        """The folder the next start would read is out of reach too, whatever --config named"""
        session = self.open()
        self.denied(self.s.write(session, self.s.home + "/.config/gatehouse/config.yaml"), "deny_path")

    def test_env_names(self):
        """S4: a name pattern matches its name in any folder, and no longer name"""
        session = self.open()
        for path in ("/a/.env", "/b/c/.env", "/a/.env.local", "/a/.conf", self.at("x/.conf")):
            self.denied(self.s.write(session, path), "deny_path")
        for path in ("/a/.conf.example", "/a/x.conf", "/a/.con", "/a/.confs"):
            self.asked(self.s.write(session, path))

    def test_star_names(self):
        """S5: *.pem matches server.pem; .env-backup is not .env"""
        session = self.open()
        self.denied(self.s.write(session, "server.pem"), "deny_path")
        self.denied(self.s.write(session, "id_ed25519"), "deny_path")
        self.asked(self.s.write(session, ".env-backup"))
        self.asked(self.s.write(session, "pem"))

    def test_component_prefix(self):
        """S6: a path entry covers whole components only"""
        session = self.open()
        self.asked(self.s.write(session, "~/.ssh-backup/x"))
        self.denied(self.s.write(session, "~/.ssh"), "deny_path")

    def test_merge(self):
        """S7: configured entries are added to the defaults, none twice"""
        rows = self.s.call("GET", "/v1/config", token="approver").json["deny_list"]
        entries = [row["entry"] for row in rows]
        for wanted in ("~/.ssh", "~/own", ".conf", "~/.aws", "~/.gnupg", "~/.netrc", "~/.kube/config",
                       "~/.docker/config.json", "~/.npmrc", "~/.pypirc", "~/.config/gcloud",
                       "~/.azure", "~/.cargo/credentials.toml", "~/.config/gh", ".env", ".env.*",
                       "id_rsa", "id_ed25519", "*.pem", "*.key"):
            self.assertEqual(entries.count(wanted), 1, (wanted, entries))
        session = self.open()
        self.denied(self.s.write(session, "~/own/x"), "deny_path")
        self.denied(self.s.write(session, "~/.aws/credentials"), "deny_path")

    def test_entry_through_a_link(self):
        """S8: an entry given through a link denies the real path as well"""
        folder = self.folder()
        real = os.path.join(folder, "real")
        os.makedirs(real)
        os.symlink(real, os.path.join(folder, "link"))
        session = self.open(deny_paths=[os.path.join(folder, "link")])
        self.denied(self.s.write(session, real + "/x"), "deny_path")
        self.denied(self.s.write(session, os.path.join(folder, "link/x")), "deny_path")

    def test_target_through_a_link(self):
        """S9: a link in the project that leads into a denied folder, the leaf missing"""
        denied = self.folder()
        session = self.open(deny_paths=[denied])
        os.symlink(denied, self.at("cloud"))
        self.denied(self.s.write(session, "cloud/new/file"), "deny_path")

    def test_moves(self):
        """S10: a move is denied for either end, and nobody is asked"""
        session = self.open()
        save(self.at("a"))
        for source, to in (("~/.ssh/id", "a2"), ("a", "~/.ssh/id"), (".env", "b"), ("a", "x/.env")):
            self.denied(self.s.decide(session, "move_file", "move", {"from": source, "to": to}),
                        "deny_path", "deny_list")
        self.assertEqual(self.pending_of(session), [])

    def test_move_of_a_folder(self):
        """S11: moving a folder with a denied file in it is refused, git-ignored or not"""
        session = self.open(working_dir=self.folder(git_init=True))
        save(self.at(".gitignore"), "secret/\n")
        save(self.at("secret/deep/.env"), "X=1")
        for source in ("secret", "secret/deep"):
            self.denied(self.s.decide(session, "move_file", "move", {"from": source, "to": "s2"}),
                        "deny_path", "deny_list")
        self.assertEqual(self.pending_of(session), [])
        self.assertTrue(os.path.exists(self.at("secret/deep/.env")))
        save(self.at("plain/deep/file"))
        self.asked(self.s.decide(session, "move_file", "move", {"from": "plain", "to": "p2"}))

    def test_memory_is_no_path(self):
        """S12: a description that names a denied folder is no path"""
        session = self.open()
        self.asked(self.s.decide(session, "remember_preference", "memory",
                                 {"description": HOME + "/.ssh"}))

    def test_reason_in_plan_mode(self):
        """S13: where deny list and plan mode both apply, the reason is the deny list's"""
        session = self.open("plan")
        answer = self.denied(self.s.write(session, "~/.ssh/x"), "deny_path", "deny_list")
        self.assertIn(".ssh", answer["reason"])
        self.assertNotIn("plan", answer["reason"].lower())

    def test_inside_autonomous(self):
        """S14: the deny list holds inside the working directory of an autonomous session"""
        session = self.open("autonomous", deny_paths=["conf/"])
        self.denied(self.s.write(session, ".env"), "deny_path")
        self.denied(self.s.write(session, "conf/a"), "deny_path")
        self.allowed(self.s.write(session, "config"), "auto", "autonomous")

    def test_bad_pattern(self):
        """S15: a pattern that is no glob is told at the start, matches nothing, breaks nothing"""
        session = self.open()
        self.asked(self.s.write(session, "a["))
        self.denied(self.s.write(session, "x/.conf"), "deny_path")
        rows = self.s.call("GET", "/v1/config", token="approver").json["deny_list"]
        self.assertTrue([r for r in rows if r["entry"] == "a[" and r["note"]], rows)
        self.assertIn("a[", self.s.log())

    def test_every_component(self):
        """A name pattern is tried on every component: what lies in a folder of that name is denied"""
        session = self.open()
        self.denied(self.s.write(session, "sub/.env/x"), "deny_path")

    def test_public_certificates(self):
        """Public certificates and packages' test keys are readable; private keys are not"""
        session = self.open()
        save(self.at("ca.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        save(self.at("both.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
             "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        read = lambda p: self.s.decide(session, "read_file", "read", {"path": p})
        self.allowed(read("ca.pem"), "auto")
        self.denied(read("both.pem"), "deny_path")
        self.denied(read("none.pem"), "deny_path")
        self.allowed(read("node_modules/x/test.pem"), "auto")
        self.denied(read("node_modules/x/.env"), "deny_path")

    def test_system_entries(self):
        """The system's password files and host keys are on the list"""
        session = self.open()
        for path in ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers",
                     "/etc/sudoers.d/x", "/etc/ssl/private/k", "/etc/ssh/ssh_host_rsa_key"):
            self.denied(self.s.decide(session, "read_file", "read", {"path": path}), "deny_path")
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "/etc/passwd"}), "auto")


class Paths(Case):
    CONFIG = ALONE

    def target(self, session, path):
        reply = self.s.decide(session, "read_file", "read", {"path": path})
        return self.allowed(reply)["parts"][0]["target"]["path"]

    def test_dots(self):
        """S16: dots vanish, and nothing goes above the root"""
        session = self.open()
        self.assertEqual(self.target(session, "../x"), os.path.dirname(self.w) + "/x")
        self.assertEqual(self.target(session, "./a/./b"), self.at("a/b"))
        self.assertEqual(self.target(session, "a//b/"), self.at("a/b"))
        up = "../" * 30
        self.assertEqual(self.target(session, up + "etc/passwd"), "/etc/passwd")
        self.assertEqual(self.target(session, "/.."), "/")

    def test_home(self):
        """S17: ~ and ~/x are the home folder; ~bob/x is an ordinary name"""
        session = self.open()
        self.assertEqual(self.target(session, "~bob/x"), self.at("~bob/x"))
        self.assertEqual(self.target(session, "~"), self.s.home)
        self.assertEqual(self.target(session, "~/x"), self.s.home + "/x")

    def test_both_homes(self):
        """The home folder of the environment is guarded, and that of the password file too"""
        session = self.open()
        for home in (self.s.home, HOME):
            self.denied(self.s.write(session, home + "/.ssh/x"), "deny_path")
            self.denied(self.s.write(session, home + "/.gitconfig"), "git_metadata")
            card = self.s.approval(self.asked(self.s.write(session, home + "/.bashrc")))
            self.assertEqual(card["warning"]["code"], "runs_code_later", home)

    def test_link_in_the_middle(self):
        """S18: a new file below a linked folder is in the real folder"""
        session = self.open()
        os.makedirs(self.at("real"))
        os.symlink("real", self.at("link"))
        self.assertEqual(self.target(session, "link/new/file"), self.at("real/new/file"))

    def test_dangling_link(self):
        """S19: a dangling link is followed by its text into the denied folder"""
        session = self.open()
        os.symlink(HOME + "/.ssh/new_key", self.at("dangling"))
        os.symlink("dangling", self.at("again"))
        for name in ("dangling", "again"):
            self.denied(self.s.write(session, name), "deny_path", "deny_list")

    def test_both_readings(self):
        """Both readings of .. count, and the kernel's is the answer's"""
        session = self.open("autonomous")
        outside = self.folder()
        os.makedirs(outside + "/deep")
        os.symlink(outside + "/deep", self.at("link"))
        answer = self.denied(self.s.write(session, "link/../x"), "autonomous_boundary")
        self.assertEqual(answer["parts"][0]["target"]["path"], outside + "/x")
        self.assertIn(self.w, answer["reason"])
        # Denied by its lexical reading alone, and by the kernel's alone.
        session = self.open(deny_paths=["secret"])
        os.symlink(outside + "/deep", self.at("link"))
        self.denied(self.s.decide(session, "read_file", "read", {"path": "link/../secret"}), "deny_path")
        session = self.open(deny_paths=[outside + "/kept"])
        os.symlink(outside + "/deep", self.at("link"))
        self.denied(self.s.decide(session, "read_file", "read", {"path": "link/../kept"}), "deny_path")

    def test_link_loop(self):
        """A loop of links is no error and no way around"""
        session = self.open()
        os.symlink("b", self.at("a"))
        os.symlink("a", self.at("b"))
        reply = self.s.write(session, "a")
        self.assertIn(reply.status, (200, 202, 422), reply)
        if reply.status == 200:
            self.denied(reply)

    def test_empty_and_invisible(self):
        """A path or command that is empty or invisible is refused at once"""
        session = self.open()
        for target in ({"path": ""}, {"path": "\u200b"}, {"path": "\u2060\ufeff"}, {"path": " "},
                       {"path": "x" * 5000}, {"path": "a\x00b"}):
            reply = self.s.decide(session, "write_file", "write", target)
            self.assertIn(reply.status, (400, 422), (target, reply))
        for target in ({"program": ""}, {"program": "\u200b", "args": []}, {"shell": ""},
                       {"shell": "\u200b"}, {"program": "ls", "cwd": "missing"}):
            reply = self.s.decide(session, "run_command", "execute", target)
            self.assertEqual(reply.status, 422, (target, reply))
        self.assertEqual(self.pending_of(session), [])


class GitMetadata(Case):
    CONFIG = ALONE

    def test_metadata(self):
        """S20: git's own files are denied at any depth, in every mode, without a question"""
        for mode in MODES:
            session = self.open(mode, working_dir=self.folder(git_init=True))
            for path in (".git/config", ".git", "sub/.git/hooks/pre-commit"):
                for tool, action in (("write_file", "write"), ("delete_file", "delete")):
                    self.denied(self.s.decide(session, tool, action, {"path": path}),
                                "git_metadata", "git_metadata")
            self.assertEqual(self.pending_of(session), [])

    def test_ordinary_names(self):
        """S21: .github, .gitignore, .gitattributes and .gitmodules are ordinary"""
        session = self.open()
        for path in (".github/x", ".gitignore", ".gitattributes", ".gitmodules"):
            self.asked(self.s.write(session, path))

    def test_read_head(self):
        """S22: reading git's files stays allowed, in every mode"""
        for mode in MODES:
            session = self.open(mode, working_dir=self.folder(git_init=True))
            self.allowed(self.s.decide(session, "read_file", "read", {"path": ".git/HEAD"}), "auto",
                         "auto_allow")

    def test_project_gitconfig(self):
        """S24: a file called .gitconfig in a project is ordinary"""
        session = self.open()
        self.asked(self.s.write(session, ".gitconfig"))

    def test_move_and_case(self):
        """S25: moving into .git is denied; so is any spelling a file system folds to it"""
        session = self.open()
        save(self.at("notes"))
        self.denied(self.s.decide(session, "move_file", "move", {"from": "notes", "to": ".git/hooks/x"}),
                    "git_metadata")
        self.denied(self.s.decide(session, "move_file", "move", {"from": ".git/hooks/x", "to": "n"}),
                    "git_metadata")
        self.denied(self.s.write(session, ".GIT/config"), "git_metadata")

    def test_linked_worktree(self):
        """S26: a linked worktree's .git file, and the folder it names, are denied"""
        main = self.folder(git_init=True)
        git(main, "commit", "-q", "--allow-empty", "-m", "x")
        tree = self.folder() + "/tree"
        git(main, "worktree", "add", "-q", tree)
        session = self.open(working_dir=tree)
        for path in (".git", main + "/.git/worktrees/tree/HEAD", main + "/.git/config"):
            self.denied(self.s.write(session, path), "git_metadata", "git_metadata")

    def test_separate_git_dir(self):
        """The repository's real folder is guarded wherever it lies"""
        work = self.folder()
        real = self.folder() + "/elsewhere"
        git(work, "init", "-q", "--separate-git-dir", real)
        session = self.open(working_dir=work)
        self.denied(self.s.write(session, real + "/config"), "git_metadata")
        self.denied(self.s.write(session, real + "/hooks/pre-commit"), "git_metadata")

    def test_linked_global_config(self):
        """A ~/.gitconfig that is a link to elsewhere is guarded at both ends"""
        session = self.open()
        read = self.s.decide(session, "read_file", "read", {"path": "~"})
        if read.json["target"]["path"] != self.s.home:
            self.skipTest("the service does not take its home from HOME, and the real one is not touched")
        dots = self.folder()
        save(dots + "/gitconfig", "[user]\n\tname = x\n")
        os.symlink(dots + "/gitconfig", self.s.home + "/.gitconfig")
        try:
            session = self.open()
            self.denied(self.s.write(session, "~/.gitconfig"), "git_metadata")
            self.denied(self.s.write(session, dots + "/gitconfig"), "git_metadata")
        finally:
            os.unlink(self.s.home + "/.gitconfig")


class GlobalConfig(unittest.TestCase):
    def service(self, **env):
        service = Service(env=env)
        self.addCleanup(close_checked, service)
        return service.start()

    def denied(self, service, session, path):
        reply = service.write(session, path)
        self.assertEqual((reply.status, reply.json.get("code")), (200, "git_metadata"), (path, reply))

    def test_xdg(self):
        """S23: git's global configuration is denied under both places, whatever XDG says"""
        folder = os.path.realpath(os.path.join(os.path.dirname(__file__), "nowhere"))
        for value in (folder, "", "relative/xdg"):
            service = self.service(XDG_CONFIG_HOME=value)
            session = service.session()
            self.denied(service, session, "~/.gitconfig")
            self.denied(service, session, "~/.config/git/config")
            self.denied(service, session, "~/.config/git/ignore")
            if value == folder:
                self.denied(service, session, folder + "/git/config")
            if value == "relative/xdg":
                self.assertEqual(service.write(session, "relative/xdg/git/config").status, 202)

    def test_named_by_environment(self):
        """A file that GIT_CONFIG_GLOBAL names is guarded"""
        service = Service()
        self.addCleanup(close_checked, service)
        path = save(os.path.join(service.root, "elsewhere", "conf"))
        service.extra_env["GIT_CONFIG_GLOBAL"] = path
        service.start()
        self.denied(service, service.session(), path)


class Modes(Case):
    CONFIG = ALONE

    def net(self, session, **fields):
        return self.s.decide(session, "web_fetch", "network", {"description": "https://example.org"},
                             **fields)

    def test_plan_reads(self):
        """S27: reads and internal calls pass in plan mode, and nobody is asked"""
        session = self.open("plan")
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "/etc/passwd"}), "auto",
                     "auto_allow", "rule")
        self.allowed(self.s.decide(session, "set_tasks", "internal", {"description": "1. think"}),
                     "auto", "auto_allow", "rule")
        self.assertEqual(self.pending_of(session), [])

    def test_plan_before_cache(self):
        """S28: plan mode comes before a standing grant; leaving it, the grant works again"""
        session = self.open()
        self.grant(session, "write_file", "write", {"path": "a"})
        self.assertEqual(self.patch(session, mode="plan").json["mode"], "plan")
        answer = self.denied(self.s.write(session, "a"), "plan_mode", "plan_mode", "rule")
        self.assertIn("plan mode", answer["reason"].lower())
        self.assertEqual(self.patch(session, mode="act").json["mode"], "act")
        self.allowed(self.s.write(session, "a"), "granted", "always_allow", "grant")
        rows = [r for r in self.s.audit(session=session) if r["kind"] == "decision"]
        self.assertEqual(len([r for r in rows if r["decision"] == "ask"]), 1)

    def test_plan_before_seeds(self):
        """S29: a command from the configuration is denied in plan mode"""
        session = self.open("plan")
        self.denied(self.s.run(session, "cargo", "test"), "plan_mode", "plan_mode")

    def test_interact(self):
        """S30: interact is allowed in act, denied in plan and in autonomous mode"""
        ask = lambda mode: self.s.decide(self.open(mode), "send_process", "interact",
                                         {"description": "process 1"})
        self.allowed(ask("act"), "auto", "network_interact", "rule")
        self.denied(ask("plan"), "plan_mode")
        self.denied(ask("autonomous"), "autonomous_refused", "autonomous")

    def test_network(self):
        """S31: network is allowed in act, denied in plan, allowed alone, denied with taint"""
        self.allowed(self.net(self.open("act")), "auto", "network_interact", "rule")
        self.denied(self.net(self.open("plan")), "plan_mode")
        session = self.open("autonomous")
        self.allowed(self.net(session), "auto", "autonomous")
        self.taint(session)
        self.denied(self.net(session), "tainted", "autonomous")

    def test_mcp(self):
        """S32: an external tool is asked in act and refused in autonomous mode"""
        what = ("mcp__files__read", "mcp_tool", {"description": "files: read"})
        self.asked(self.s.decide(self.open(), *what))
        session = self.open("autonomous")
        answer = self.denied(self.s.decide(session, *what), "autonomous_refused", "autonomous")
        self.assertIn("mcp_tool", answer["reason"])
        self.denied(self.s.decide(self.open("plan"), *what), "plan_mode")
        self.assertEqual(self.pending_of(session), [])

    def test_memory(self):
        """S33: memory is asked every time and "always" is not offered; alone it is refused"""
        what = ("remember_preference", "memory", {"description": "preferences"})
        session = self.open()
        for _ in range(2):
            approval = self.asked(self.s.decide(session, *what))
            self.assertEqual(self.s.approval(approval)["offered"], ["allow", "deny"])
            reply = self.s.answer(approval, "allow_always")
            self.assertEqual((reply.status, reply.json["code"]), (422, "not_offered"))
            self.settle(approval, "allow")
        self.denied(self.s.decide(self.open("autonomous"), *what), "autonomous_refused")

    def test_memory_tools(self):
        """S34: a grant to write a topic never forgets it"""
        session = self.open()
        topic = {"description": "project: style"}
        self.grant(session, "memory_write", "persistent_memory", topic)
        self.allowed(self.s.decide(session, "memory_write", "persistent_memory", topic), "granted")
        self.asked(self.s.decide(session, "memory_forget", "persistent_memory", topic))
        self.denied(self.s.decide(self.open("autonomous"), "memory_write", "persistent_memory", topic),
                    "autonomous_refused")

    def test_command_key(self):
        """S35: a grant of one command covers its exact words only"""
        session = self.open()
        self.grant(session, "run_command", "execute", {"program": "npm", "args": ["test"]})
        self.asked(self.s.run(session, "npm", "run"))
        self.asked(self.s.run(session, "npm", "test", "-u"))
        self.asked(self.s.run(session, "npm"))
        self.allowed(self.s.run(session, "npm", "test"), "granted", "always_allow", "grant")

    def test_command_key_is_unambiguous(self):
        """Words are words: joined or split they are another command, and so is another folder"""
        session = self.open()
        os.makedirs(self.at("sub"))
        self.grant(session, "run_command", "execute", {"program": "x", "args": ["a b"]})
        self.asked(self.s.run(session, "x", "a", "b"))
        self.asked(self.s.run(session, "x a", "b"))
        self.asked(self.s.decide(session, "run_command", "execute",
                                 {"program": "x", "args": ["a b"], "cwd": "sub"}))
        self.allowed(self.s.decide(session, "run_command", "execute",
                                   {"program": "x", "args": ["a b"], "cwd": self.w}), "granted")

    def test_write_is_no_delete(self):
        """S36: a grant to write a file does not delete it"""
        session = self.open()
        self.grant(session, "write_file", "write", {"path": "a.rs"})
        self.asked(self.s.decide(session, "delete_file", "delete", {"path": "a.rs"}))
        self.allowed(self.s.write(session, "./a.rs"), "granted")

    def test_move_key(self):
        """S37: a grant of a move covers this source with this destination"""
        session = self.open()
        save(self.at("a"))
        self.grant(session, "move_file", "move", {"from": "a", "to": "b"})
        move = lambda a, b: self.s.decide(session, "move_file", "move", {"from": a, "to": b})
        self.asked(move("a", "c"))
        self.asked(move("b", "a"))
        self.allowed(move("a", "b"), "granted")

    def test_deny_is_not_kept(self):
        """S38: a denial is never remembered: the same call is asked again"""
        session = self.open()
        for _ in range(2):
            reply = self.s.write(session, "a")
            self.settle(self.asked(reply), "deny")
            self.denied(self.decision_of(reply.json), "denied_by_person", "ask", "person")

    def test_allow_once_is_not_kept(self):
        """An "allow" is for this call only"""
        session = self.open()
        for _ in range(2):
            reply = self.s.write(session, "a")
            self.settle(self.asked(reply), "allow")
            self.assertEqual(self.decision_of(reply.json).json["decision"], "allow")

    def test_seeds(self):
        """S39: a command of the configuration passes with exactly its words, by shell as well"""
        session = self.open()
        answer = self.allowed(self.s.run(session, "cargo", "test"), "seeded", "always_allow", "grant")
        self.assertEqual(answer["decision"], "allow_always")
        self.asked(self.s.run(session, "cargo", "test", "--release"))
        self.allowed(self.s.shell(session, "make check"), "seeded", "always_allow", "grant")
        self.asked(self.s.shell(session, "make check "))
        self.asked(self.s.shell(session, "cargo test"))

    def test_boundary(self):
        """S40: alone, writes are allowed in the working directory and denied outside"""
        session = self.open("autonomous")
        self.allowed(self.s.write(session, "sub/a"), "auto", "autonomous")
        self.allowed(self.s.write(session, self.w), "auto", "autonomous")
        answer = self.denied(self.s.write(session, "/etc/passwd"), "autonomous_boundary", "autonomous")
        self.assertIn(self.w, answer["reason"])
        self.denied(self.s.write(session, self.w + "2/x"), "autonomous_boundary")
        self.denied(self.s.decide(session, "delete_file", "delete", {"path": "../x"}),
                    "autonomous_boundary")
        self.assertEqual(self.pending_of(session), [])

    def test_boundary_of_moves(self):
        """S41: alone, a move with one end outside is denied"""
        session = self.open("autonomous")
        save(self.at("a"))
        for source, to in (("a", "/var/tmp/x"), ("/etc/hostname", "a2")):
            self.denied(self.s.decide(session, "move_file", "move", {"from": source, "to": to}),
                        "autonomous_boundary")
        self.allowed(self.s.decide(session, "move_file", "move", {"from": "a", "to": "b"}), "auto")

    def test_unlisted_commands(self):
        """S42: alone, a command that is not listed is denied with a hint, and so is a commit"""
        session = self.open("autonomous")
        answer = self.denied(self.s.run(session, "make", "all"), "not_preapproved", "autonomous")
        self.assertIn("allowed_commands", answer["reason"])
        self.allowed(self.s.run(session, "cargo", "test"), "seeded", "autonomous")
        reply = self.s.decide(session, "git_commit", "execute",
                              {"program": "git", "args": ["commit", "-m", "x"]})
        self.denied(reply, "not_preapproved")

    def test_taint_alone(self):
        """S43: taint stops every change of an autonomous session and names its source"""
        session = self.open("autonomous")
        save(self.at("a"))
        self.taint(session, "read_file: evil.md")
        for what in (("write_file", "write", {"path": "a"}), ("delete_file", "delete", {"path": "a"}),
                     ("move_file", "move", {"from": "a", "to": "b"}),
                     ("run_command", "execute", {"program": "cargo", "args": ["test"]})):
            answer = self.denied(self.s.decide(session, *what), "tainted", "autonomous")
            self.assertIn("read_file: evil.md", answer["reason"])
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "a"}), "auto")
        act = self.open()
        self.taint(act)
        approval = self.asked(self.s.write(act, "a"))
        self.assertEqual(self.s.approval(approval)["taint"]["source"], "notes.txt")

    def test_plan_wins(self):
        """S44: where plan and autonomous both apply, the denial is plan mode's"""
        session = self.open("autonomous")
        self.denied(self.s.write(session, "a", mode="plan"), "plan_mode", "plan_mode")
        self.denied(self.s.run(session, "cargo", "test", mode="plan"), "plan_mode")
        self.allowed(self.s.write(session, "a"), "auto")

    def test_revoke(self):
        """S45: an agent revokes a grant of its own session, and is asked again"""
        session = self.open()
        self.grant(session, "delete_file", "delete", {"path": "a"})
        grants = self.s.call("GET", f"/v1/sessions/{session}/grants").json["items"]
        mine = [g for g in grants if not g["seed"]]
        self.assertEqual(len(mine), 1, grants)
        path = f"/v1/sessions/{session}/grants/{mine[0]['id']}"
        self.assertEqual(self.s.call("DELETE", path).status, 204)
        self.assertEqual(self.s.call("DELETE", path).status, 404)
        self.asked(self.s.decide(session, "delete_file", "delete", {"path": "a"}))

    def test_runs_later(self):
        """S46: files that run code later: a warning, never "always"; elsewhere and for reads none"""
        session = self.open()
        save(self.at("a"))
        for what in (("write_file", "write", {"path": "~/.bashrc"}),
                     ("move_file", "move", {"from": "a", "to": "~/.zshrc"}),
                     ("write_file", "write", {"path": "~/.config/systemd/user/x.service"})):
            approval = self.asked(self.s.decide(session, *what))
            card = self.s.approval(approval)
            self.assertEqual(card["warning"]["code"], "runs_code_later", card)
            self.assertEqual(card["offered"], ["allow", "deny"])
            self.assertEqual(self.s.answer(approval, "allow_always").status, 422)
            self.settle(approval, "allow")
            self.asked(self.s.decide(session, *what))
        self.assertEqual([g for g in self.s.call("GET", f"/v1/sessions/{session}/grants").json["items"]
                          if not g["seed"]], [])
        other = self.s.approval(self.asked(self.s.write(session, self.at("x/.bashrc"))))
        self.assertIsNone(other["warning"])
        self.assertIn("allow_always", other["offered"])
        read = self.allowed(self.s.decide(session, "read_file", "read", {"path": "~/.bashrc"}), "auto")
        self.assertIsNone(read["warning"])

    def test_response_limit(self):
        """S62: the 21st call of one model response is denied, and so are all that follow"""
        session = self.open()
        read = lambda: self.s.decide(session, "read_file", "read", {"path": "a"}, response_id="r-1")
        for _ in range(20):
            self.allowed(read(), "auto")
        self.denied(read(), "too_many_calls")
        self.denied(read(), "too_many_calls")
        self.allowed(self.s.decide(session, "read_file", "read", {"path": "a"}, response_id="r-2"), "auto")

    def test_gate_configuration(self):
        """Agents' own settings: asked with a warning, never always, refused alone"""
        session = self.open()
        for path in (".claude/settings.json", "~/.claude/settings.json", ".mcp.json"):
            approval = self.asked(self.s.write(session, path))
            card = self.s.approval(approval)
            self.assertEqual(card["warning"]["code"], "gate_configuration", card)
            self.assertEqual(card["offered"], ["allow", "deny"])
        session = self.open("autonomous")
        self.denied(self.s.write(session, ".claude/settings.json"), "gate_configuration")

    def test_unknown_tools(self):
        """A tool nobody registered gets nothing silently, in no mode"""
        for action, target in (("read", {"path": "a"}), ("internal", {"description": "x"}),
                               ("network", {"description": "x"})):
            self.asked(self.s.decide(self.open(), "stranger", action, target))
            self.denied(self.s.decide(self.open("plan"), "stranger", action, target), "plan_mode")
            self.denied(self.s.decide(self.open("autonomous"), "stranger", action, target))


class Unwritable(unittest.TestCase):
    def test_no_gate(self):
        """S47: where nothing can be decided for good, everything is denied, and it recovers"""
        service = Service()
        self.addCleanup(close_checked, service)
        service.start(preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        session = service.session()
        kept = service.write(session, "kept").json
        digest = service.approval(kept["approval"])["digest"]
        pid = service.process.pid
        old = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, old[1]))
        reply = until(lambda: self.refused(service, session), "writes fail")
        self.assertEqual(reply.json["code"], "audit_unavailable")
        self.assertEqual(reply.json["decision"], "deny")
        self.assertTrue(reply.json["reason"])
        self.assertNotIn("id", reply.json)
        for what in (("write_file", "write", {"path": "a"}),
                     ("run_command", "execute", {"program": "ls"})):
            self.assertEqual(service.decide(session, *what).status, 503)
        for word in ("allow", "deny", "allow_always"):
            reply = service.answer(kept["approval"], word, digest)
            self.assertEqual((reply.status, reply.json["decision"]), (503, "deny"), reply)
        self.assertEqual(service.approval(kept["approval"])["state"], "pending")
        self.assertEqual(service.call("GET", "/healthz", token=None).status, 200)
        self.assertEqual(service.call("GET", "/readyz").status, 503)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, old)
        until(lambda: service.decide(session, "read_file", "read", {"path": "a"}).status == 200,
              "it recovers")
        self.assertEqual(service.answer(kept["approval"], "allow", digest).status, 200)

    def refused(self, service, session):
        reply = service.decide(session, "read_file", "read", {"path": "a"})
        return reply if reply.status == 503 else None


if __name__ == "__main__":
    unittest.main()
