#!/usr/bin/env python3
"""Ask gatehouse for one command with Python's standard library, wait for the answer, print it.

  ask.py STATE-FOLDER PROGRAM [ARGUMENT…]

Exit code: 0 allowed, 3 denied, 4 nobody answered (denied), 1 anything else, 5 no service.
"""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request


def main(state, program, *args):
    state = pathlib.Path(state)

    def call(method, path, body=None):
        # Read anew each time: the token may be exchanged, the service restarted on another port.
        run = json.loads((state / "run.json").read_text())
        token = (state / "tokens" / "agent.token").read_text().strip()
        request = urllib.request.Request("http://" + run["listen"] + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + token,
                                                  "Content-Type": "application/json"})
        # No proxy of the environment: the address is this machine's.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=90) as answer:
            return json.load(answer)

    session = call("POST", "/v1/sessions", {"agent": "ask.py", "working_dir": os.getcwd()})["id"]
    answer = call("POST", f"/v1/sessions/{session}/decisions", {
        "tool": "run_command", "action": "execute", "wait_s": 50,
        "target": {"program": program, "args": args}})
    while answer["decision"] == "ask":
        answer = call("GET", f"/v1/sessions/{session}/decisions/{answer['id']}?wait_s=50")
    print(f"{answer['decision']}: {answer['reason']}")
    if answer["decision"] in ("allow", "allow_always"):
        return 0
    return 4 if answer["by"] == "timeout" else 3


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except urllib.error.HTTPError as e:
        sys.exit(f"refused: {e.read().decode()}")
    except (OSError, ValueError) as e:
        print(f"no service: {e}", file=sys.stderr)
        sys.exit(5)
