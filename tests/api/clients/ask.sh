#!/bin/bash
# Ask gatehouse for one command with curl, wait for the answer, print it.
#
#   ask.sh STATE-FOLDER PROGRAM [ARGUMENT…]
#
# Exit code: 0 allowed, 3 denied, 4 nobody answered (denied), 1 anything else.
set -u -o pipefail
state=$1
shift

# A field of the JSON on standard input; nothing when it is null.
field() {
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]] or "")' "$1"
}

# Its address stands in run.json, the agent's token beside it. curl reads the token from a
# descriptor, so that it is on no command line.
listen=$(field listen <"$state/run.json") || exit 1
call() {
    local path=$1
    shift
    curl -sS -f -H @<(printf 'Authorization: Bearer %s' "$(cat "$state/tokens/agent.token")") \
        -H 'Content-Type: application/json' "http://$listen$path" "$@"
}

# Bodies are made by a JSON writer: names and arguments may hold anything.
session_body() {
    python3 -c 'import json, os; print(json.dumps({"agent": "ask.sh", "working_dir": os.getcwd()}))'
}
question_body() {
    python3 -c 'import json, sys; print(json.dumps({"tool": "run_command", "action": "execute",
        "target": {"program": sys.argv[1], "args": sys.argv[2:]}, "wait_s": 0}))' "$@"
}

session=$(session_body | call /v1/sessions -d @- | field id) || exit 1
answer=$(question_body "$@" | call "/v1/sessions/$session/decisions" -d @-) || exit 1
decision=$(field decision <<<"$answer") || exit 1
path=/v1/sessions/$session/decisions/$(field id <<<"$answer")
while [ "$decision" = ask ]; do
    answer=$(call "$path?wait_s=50") || exit 1
    decision=$(field decision <<<"$answer") || exit 1
done

printf '%s: %s\n' "$decision" "$(field reason <<<"$answer")"
case "$decision by $(field by <<<"$answer")" in
    allow*) exit 0 ;;
    "deny by timeout") exit 4 ;;
    deny*) exit 3 ;;
    *) exit 1 ;;
esac
