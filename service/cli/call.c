#include "cli/call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "cli/commands.h"

#define MAX_PAGES 20
#define ID_LENGTH 36 /* "ses_" and 32 characters */
#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static void say(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

static void say(const char *fmt, va_list args)
{
    gh_autofree char *text = NULL;
    gh_auto(gh_buf_fini) struct gh_buf shown = GH_BUF_INIT;
    if (vasprintf(&text, fmt, args) < 0) {
        text = NULL;
        return;
    }
    text_neutral(text, strlen(text), true, &shown);
    fprintf(stderr, "gatehouse: %s\n", gh_buf_str(&shown));
}

void cli_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    fprintf(stderr, "Examples: gatehouse %s --help\n", cli->name);
    return CLI_USAGE;
}

int cli_begin(struct cli *cli, int argc, char **argv, const struct cli_syntax *syntax)
{
    struct gh_err err = {0};
    *cli = (struct cli){.name = argv[0], .signal_fd = -1};
    cli_out_init(&cli->out);
    if (!gh_id_init()) {
        cli_say("The kernel's random source cannot be used.");
        return CLI_FAILED;
    }
    if (cli_args_parse(argc, argv, syntax->opts, &cli->args, &err) != GH_OK) {
        return cli_usage(cli, "%s", err.detail);
    }
    if (cli->args.help) {
        return cli_help(cli->name);
    }
    if (cli->args.n_rest < syntax->min || cli->args.n_rest > syntax->max) {
        return cli_usage(cli, cli->args.n_rest < syntax->min ? "Something is missing."
                                                             : "There is one word too many.");
    }
    cli->state_dir = cli->args.state_dir != NULL ? strdup(cli->args.state_dir)
                                                 : gh_fs_xdg("XDG_STATE_HOME", ".local/state");
    if (cli->state_dir == NULL || cli->state_dir[0] == '\0') {
        cli_say("There is no state folder; name one with --state-dir.");
        return CLI_FAILED;
    }
    return CLI_GO_ON;
}

void cli_fini(struct cli *cli)
{
    cli_client_free(cli->client);
    cli_service_fini(&cli->service);
    cli_out_fini(&cli->out);
    free(cli->state_dir);
    if (cli->signal_fd >= 0) {
        close(cli->signal_fd);
    }
}

enum gh_code cli_reach(struct cli *cli, enum cli_role role, struct gh_err *err)
{
    cli_client_free(cli->client);
    cli->client = NULL;
    cli_service_fini(&cli->service);
    GH_TRY(cli_find(cli->state_dir, role, &cli->service, err));
    return cli_client_new(&cli->service, &cli->client, err);
}

int cli_connect(struct cli *cli, enum cli_role role)
{
    struct gh_err err = {0};
    enum gh_code code = cli_reach(cli, role, &err);
    if (code == GH_OK) {
        return CLI_GO_ON;
    }
    cli_say("%s", err.detail);
    return code == GH_NOT_FOUND ? CLI_NO_SERVICE : CLI_FAILED;
}

void cli_catch_signals(struct cli *cli)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP); /* the terminal is closed: nobody waits for the answer any more */
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0) {
        cli->signal_fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
}

bool cli_pause(const struct cli *cli, int ms)
{
    struct pollfd poller = {.fd = cli->signal_fd, .events = POLLIN};
    return poll(&poller, 1, ms) > 0;
}

/* The problem's own words, the fields it names, and what to do about the usual ones. */
static void explain_problem(const struct cli_answer *answer)
{
    static const struct {
        long status;
        const char *hint;
    } hints[] = {
        {401, "The token files are in the state folder (tokens/); GATEHOUSE_TOKEN_FILE names "
              "another one."},
        {403, "Another token is needed for this; see: gatehouse token list"},
        {409, "Somebody or something settled it first; see: gatehouse show ID"},
        {410, "It has expired, which is a denial; the agent may ask again."},
        {412, "What waits there is not what you saw; look again: gatehouse show ID"},
        {429, "Wait a little and try again."},
        {503, "See what is wrong with: gatehouse doctor"},
    };
    const struct json_t *errors = gh_json_get(answer->json, "errors");
    cli_say("%s (%ld %s)",
            cli_str(answer->json, "detail", cli_str(answer->json, "title", "The service refused.")),
            answer->status, cli_str(answer->json, "code", "no code"));
    for (size_t i = 0; i < gh_json_len(errors) && i < 16; i++) {
        const struct json_t *one = gh_json_at(errors, i);
        cli_say("  %s: %s", cli_str(one, "pointer", "?"), cli_str(one, "detail", ""));
    }
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (hints[i].status == answer->status) {
            fprintf(stderr, "%s\n", hints[i].hint);
        }
    }
}

int cli_complain(struct cli *cli, const struct cli_answer *answer, const struct gh_err *err)
{
    if (answer->failure == CLI_F_INTERRUPTED) {
        return CLI_INTERRUPTED;
    }
    if (answer->failure != CLI_F_NONE) {
        cli_say("%s", err->detail);
        if (answer->failure == CLI_F_NO_SERVICE) {
            fputs("The service is not running; start it with: gatehouse serve\n", stderr);
        }
        return answer->failure == CLI_F_LOCAL ? CLI_FAILED : CLI_NO_SERVICE;
    }
    if (cli->args.json && answer->json != NULL) {
        cli_out_value(&cli->out, answer->json);
        cli_out_flush(&cli->out);
    }
    explain_problem(answer);
    return CLI_FAILED;
}

int cli_send(struct cli *cli, const struct cli_request *request, struct cli_answer *answer)
{
    struct gh_err err = {0};
    enum gh_code code = cli_client_send(cli->client, request, answer, &err);
    if (code == GH_OK && answer->status >= 200 && answer->status < 300) {
        return CLI_GO_ON;
    }
    return cli_complain(cli, answer, &err);
}

int cli_get(struct cli *cli, const char *path, struct cli_answer *answer)
{
    return cli_send(cli, &(struct cli_request){.method = "GET", .path = path}, answer);
}

int cli_finish(struct cli *cli, int code)
{
    return cli_out_flush(&cli->out) ? code : CLI_FAILED;
}

int cli_print_json(struct cli *cli, const struct cli_answer *answer)
{
    struct cli_out_cut rest = {{0}, 0};
    if (answer->len == 0) {
        cli_out_puts(&cli->out, "{}\n"); /* a 204: done, and nothing to tell */
    }
    cli_out_json(&cli->out, answer->body, answer->len, &rest);
    if (answer->len > 0 && answer->body[answer->len - 1] != '\n') {
        cli_out_puts(&cli->out, "\n");
    }
    return cli_finish(cli, CLI_DONE);
}

const char *cli_str(const struct json_t *obj, const char *key, const char *fallback)
{
    const char *text = gh_json_text(gh_json_get(obj, key));
    return text == NULL ? fallback : text;
}

const char *cli_short_id(const char *id)
{
    size_t len = strlen(id);
    return len > CLI_SHORT_ID ? id + len - CLI_SHORT_ID : id;
}

int cli_list(struct cli *cli, const char *path, cli_item_fn *fn, void *cookie)
{
    gh_auto(gh_buf_fini) struct gh_buf page = GH_BUF_INIT;
    gh_autofree char *cursor = NULL;
    for (size_t n_pages = 0; n_pages < MAX_PAGES; n_pages++) {
        gh_auto(cli_answer_fini) struct cli_answer answer = {0};
        gh_buf_fini(&page);
        gh_buf_puts(&page, path);
        cli_query(&page, "limit", "1000");
        cli_query(&page, "cursor", cursor);
        int code = cli_get(cli, gh_buf_str(&page), &answer);
        if (code != CLI_GO_ON) {
            return code;
        }
        const struct json_t *items = gh_json_get(answer.json, "items");
        for (size_t i = 0; i < gh_json_len(items); i++) {
            fn(gh_json_at(items, i), cookie);
        }
        free(cursor);
        const char *next = cli_str(answer.json, "next_cursor", NULL);
        cursor = next == NULL ? NULL : strdup(next);
        if (cursor == NULL) {
            return CLI_GO_ON;
        }
    }
    cli_say("The list is longer than %d pages; the rest is left out.", MAX_PAGES);
    return CLI_GO_ON;
}

static void put_item(const struct json_t *item, void *cookie)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_json_canonical(item, &text);
    gh_jw_raw(cookie, NULL, gh_buf_str(&text));
}

int cli_print_list(struct cli *cli, const char *path)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct cli_out_cut rest = {{0}, 0};
    struct gh_jw w = {.buf = &text, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "items");
    int code = cli_list(cli, path, put_item, &w);
    if (code != CLI_GO_ON) {
        return code;
    }
    gh_jw_arr_end(&w);
    gh_jw_null(&w, "next_cursor");
    gh_jw_end(&w);
    cli->out.buf.failed = cli->out.buf.failed || text.failed;
    cli_out_json(&cli->out, gh_buf_str(&text), text.len, &rest);
    cli_out_puts(&cli->out, "\n");
    return cli_finish(cli, CLI_DONE);
}

struct id_search {
    const char *word;
    char *ret; /* 64 bytes */
    size_t n;
};

static void match_id(const struct json_t *item, void *cookie)
{
    struct id_search *search = cookie;
    const char *id = cli_str(item, "id", "");
    if (strlen(id) > 4 && strlen(id) < 64 && strcasestr(id + 4, search->word) != NULL) {
        snprintf(search->ret, 64, "%s", id);
        search->n++;
    }
}

/* A whole id as far as we care: ids are opaque, but they go into paths. */
static bool is_whole_id(const char *text, const char prefix[4])
{
    return strncmp(text, prefix, 3) == 0 && text[3] == '_' && strlen(text) == ID_LENGTH &&
           strspn(text + 4, ID_CHARACTERS) == ID_LENGTH - 4;
}

/* The tail of the id that `word` gives, checked; NULL after a message. */
static const char *tail_of(const struct cli *cli, const char prefix[4], const char *word)
{
    size_t skip = strncmp(word, prefix, 3) == 0 && word[3] == '_' ? 4 : 0;
    size_t len = strlen(word);
    if (len >= 64 || strspn(word, ID_CHARACTERS) != len) {
        cli_usage(cli, "That is not an id: %s", word);
        return NULL;
    }
    if (len - skip < 6) {
        cli_usage(cli, "At least 6 characters of the id are needed, not \"%s\".", word);
        return NULL;
    }
    return word + skip;
}

int cli_resolve(struct cli *cli, const char *const paths[], const char prefix[4], const char *word,
                char ret[64])
{
    const char *tail = tail_of(cli, prefix, word);
    if (tail == NULL) {
        return CLI_USAGE;
    }
    if (is_whole_id(word, prefix)) {
        snprintf(ret, 64, "%s", word);
        return CLI_GO_ON;
    }
    struct id_search search = {.word = tail, .ret = ret};
    for (size_t i = 0; search.n == 0 && paths[i] != NULL; i++) {
        int code = cli_list(cli, paths[i], match_id, &search);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    if (search.n == 1) {
        return CLI_GO_ON;
    }
    cli_say(search.n == 0 ? "No id has \"%s\" in it."
                          : "More than one id has \"%s\" in it; give more.",
            word);
    return CLI_FAILED;
}

int cli_resolve_session(struct cli *cli, const char *word, char ret[64])
{
    static const char *const paths[] = {"/v1/sessions?state=active", "/v1/sessions", NULL};
    return cli_resolve(cli, paths, "ses", word, ret);
}

static void write_open(struct gh_buf *body, const char *dir, const char *agent)
{
    struct gh_jw w = {.buf = body, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "agent", agent == NULL ? "gatehouse-cli" : agent);
    gh_jw_str(&w, "working_dir", dir);
    gh_jw_obj(&w, "external");
    gh_jw_str(&w, "agent", "gatehouse-cli");
    gh_jw_str(&w, "id", dir);
    gh_jw_end(&w);
    gh_jw_end(&w);
}

int cli_session_open(struct cli *cli, const char *dir, const char *agent, char ret_id[64],
                     char **ret_dir)
{
    char key[GH_ID];
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    gh_auto(cli_answer_fini) struct cli_answer answer = {0};
    gh_autofree char *path = realpath(dir == NULL ? "." : dir, NULL);
    if (path == NULL) {
        return cli_usage(cli, "The folder %s cannot be used: %s.", dir == NULL ? "." : dir,
                         strerror(errno));
    }
    gh_id_new("key", key);
    write_open(&body, path, agent);
    int code = cli_send(cli,
                        &(struct cli_request){.method = "POST",
                                              .path = "/v1/sessions",
                                              .body = gh_buf_str(&body),
                                              .idempotency_key = key},
                        &answer);
    if (code != CLI_GO_ON) {
        return code;
    }
    const char *id = cli_str(answer.json, "id", "");
    if (!is_whole_id(id, "ses")) {
        cli_say("The service answered without a session id.");
        return CLI_FAILED;
    }
    snprintf(ret_id, 64, "%s", id);
    *ret_dir = strdup(cli_str(answer.json, "working_dir", path));
    return *ret_dir == NULL ? CLI_FAILED : CLI_GO_ON;
}
