"""README.md names every configuration key and every command, and no key that does not exist."""
import re

ROW = re.compile(r'\{"(\w+)",\s*TABLE_(\w+)')
TABLE = re.compile(r"static const struct \w+ (\w+)\[\]\s*=\s*\{(.*?)\n\};", re.S)
COMMAND = re.compile(r"cli_cmd_(\w+);")
QUOTED = re.compile(r"`([a-z]+(?:\.[a-z_]+)?)`")


def config_keys(text):
    """Keys of table.c as README has them: "section.key", or the name alone for lists at the top."""
    tables = {name: ROW.findall(body) for name, body in TABLE.findall(text)}
    sections = {key for rows in tables.values() for key, kind in rows if kind == "SECTION"}
    keys = {f"{section}.{key}" for section in sections
            for key, _ in tables.get(f"{section}_keys", [])}
    tops = {key for rows in tables.values() if any(kind == "SECTION" for _, kind in rows)
            for key, kind in rows if kind != "SECTION"}
    return sections, keys | tops


def check(tree):
    if not tree.exists("README.md"):
        return ["README.md: is missing"]
    named = set(QUOTED.findall(tree.text("README.md")))
    found = []
    if tree.exists("service/config/table.c"):
        sections, keys = config_keys(tree.text("service/config/table.c"))
        if not keys:
            found.append("service/config/table.c: no keys found; has its form changed?")
        found += [f"README.md: the key {key} is missing" for key in sorted(keys - named)]
        found += [f"README.md: the key {n} does not exist" for n in sorted(named - keys)
                  if n.split(".")[0] in sections and "." in n and n != "config.yaml"]
    if tree.exists("service/cli/commands.h"):
        commands = COMMAND.findall(tree.text("service/cli/commands.h"))
        found += [f"README.md: the command {c} is missing" for c in commands if c not in named]
    return found


ROWS = 'static const struct table_key asks_keys[] = {\n    {"timeout_s", TABLE_INT, 1},\n};\n'
TOP = 'static const struct table_key top_keys[] = {\n    {"asks", TABLE_SECTION, 0},\n    {"notify", TABLE_ROWS},\n};\n'
GOOD = {
    "README.md": "`asks.timeout_s` `notify` `deny` `config.yaml`\n",
    "service/config/table.c": ROWS + TOP,
    "service/cli/commands.h": "extern const struct cli_command cli_cmd_deny;\n",
}
BAD = [
    ("a key is not told", {"README.md": "`notify` `deny`\n"}, "key asks.timeout_s is missing"),
    ("a list at the top is not told", {"README.md": "`asks.timeout_s` `deny`\n"}, "key notify is missing"),
    ("a key that is gone", {"README.md": "`asks.timeout_s` `notify` `deny` `asks.old`\n"},
     "asks.old does not exist"),
    ("a command is not told", {"README.md": "`asks.timeout_s` `notify`\n"}, "command deny is missing"),
    ("another form of table", {"service/config/table.c": "int x;\n"}, "has its form changed"),
]
