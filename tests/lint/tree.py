"""The tree a check looks at: files, and the archives built from them."""
import os
import re
import subprocess
from pathlib import Path

SKIPPED = {".git", "build", "node_modules", ".cache", "__pycache__"}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


class Tree:
    def __init__(self, root, build):
        self.root = Path(root).resolve()
        self.build = Path(build).resolve()

    @staticmethod
    def lay(folder, files):
        """A tree made of {name: text} below `folder`; its C files are compiled when asked for."""
        for name, text in files.items():
            path = Path(folder, "tree", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        Path(folder, "tree").mkdir(exist_ok=True)
        return SmallTree(Path(folder, "tree"), Path(folder, "out"))

    def files(self, *suffixes, below=("",)):
        """Names relative to the root, sorted; every file when no suffix is given."""
        names = []
        for folder, folders, entries in os.walk(self.root):
            folders[:] = [f for f in folders if f not in SKIPPED]
            here = Path(folder).relative_to(self.root)
            names += [str(here / e) for e in entries]
        return sorted(n for n in names
                      if (not suffixes or n.endswith(suffixes)) and n.startswith(tuple(below)))

    def text(self, name):
        return (self.root / name).read_text(errors="replace")

    def code(self, name):
        """The text with comments and literals blanked, line numbers kept."""
        return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), self.text(name))

    def exists(self, name):
        return (self.root / name).exists()

    def objects(self):
        """(module, archive or object file) of everything linked into the programs."""
        found = [(p.name[len("libgh_"):-2], p) for p in sorted(self.build.glob("service/*/libgh_*.a"))]
        found += [("main", p) for p in sorted(self.build.glob("**/gatehouse.dir/**/*.o"))]
        return found


class SmallTree(Tree):
    def objects(self):
        found = []
        for name in self.files(".c", below=("service/",)):
            module = name.split("/")[1]
            out = self.build / (name.replace("/", "_") + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cc", "-c", "-fPIC", "-I", self.root / "service", self.root / name, "-o",
                            out], check=True)
            archive = self.build / f"service/{module}/libgh_{module}.a"
            archive.parent.mkdir(parents=True, exist_ok=True)
            member = archive.parent / (Path(name).name + ".o")
            out.rename(member)
            subprocess.run(["ar", "rcs", archive, member], check=True)
            if (module, archive) not in found:
                found.append((module, archive))
        return found
