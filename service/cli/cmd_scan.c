#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/call.h"
#include "cli/commands.h"

#define PIECE_BYTES (512U << 10) /* six times as much when every byte is escaped: below 4 MiB */
#define OVERLAP_BYTES (8U << 10) /* a marker across two pieces is whole in one of them */
#define MAX_BYTES (256U << 20)

static int run_scan(int argc, char **argv);

const struct cli_command cli_cmd_scan = {
    .name = "scan",
    .summary = "look for planted instructions in a text",
    .help = "gatehouse scan [--session ID] [--dir PATH] [--source NAME] FILE|-\n\n"
            "  gatehouse scan README.md\n"
            "  curl -s https://example.org/ | gatehouse scan --source example.org -\n\n"
            "Exit code 0: nothing found; 3: found. A finding taints the session (see\n"
            "`gatehouse taint`).\n",
    .run = run_scan,
};

struct scan {
    struct cli *cli;
    const char *source;
    char path[128];
};

static int open_input(const char *name)
{
    return strcmp(name, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                  : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

/* Fill up to `size` bytes; fewer at the end; -1 on an error. */
static ssize_t read_full(int fd, char *to, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, to + len, size - len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* JSON carries no NUL; a blank keeps the offsets. */
static void drop_nuls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }
}

static int send_piece(struct scan *scan, const char *text, size_t len, struct cli_answer *answer)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {.buf = &body, .comma = false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "source", scan->source);
    gh_jw_strn(&w, "text", text, len);
    gh_jw_end(&w);
    if (body.failed) {
        cli_say("There is not enough memory.");
        return CLI_FAILED;
    }
    const struct cli_request request = {
        .method = "POST", .path = scan->path, .body = gh_buf_str(&body)};
    return cli_send(scan->cli, &request, answer);
}

static int report(struct scan *scan, const struct cli_answer *answer, int64_t base)
{
    struct cli_out *out = &scan->cli->out;
    const struct json_t *finding = gh_json_get(answer->json, "finding");
    bool is_found = gh_json_len(finding) > 0;
    if (scan->cli->args.json) {
        int code = cli_print_json(scan->cli, answer);
        return code == CLI_DONE && is_found ? CLI_DENIED : code;
    }
    if (!is_found) {
        cli_out_puts(out, "Nothing found.\n");
        return cli_finish(scan->cli, CLI_DONE);
    }
    cli_out_style(out, CLI_YELLOW);
    cli_out_puts(out, "Found an instruction planted in the text.\n");
    cli_out_style(out, CLI_PLAIN);
    cli_out_field(out, "source", cli_str(finding, "source", NULL));
    cli_out_field(out, "marker", cli_str(finding, "marker", NULL));
    cli_out_printf(out, "offset     %lld\n",
                   (long long)(base + gh_json_number(gh_json_get(finding, "offset"), 0)));
    cli_out_field(out, "excerpt", cli_str(finding, "excerpt", NULL));
    return cli_finish(scan->cli, CLI_DENIED);
}

/* Piece by piece, each with the tail of the one before; the first finding ends it. */
static int scan_input(struct scan *scan, int fd)
{
    gh_autofree char *piece = malloc(OVERLAP_BYTES + PIECE_BYTES);
    size_t kept = 0;
    int64_t base = 0;
    while (piece != NULL && base <= MAX_BYTES) {
        gh_auto(cli_answer_fini) struct cli_answer answer = {0};
        ssize_t n = read_full(fd, piece + kept, PIECE_BYTES);
        if (n < 0) {
            cli_say("The text cannot be read: %s.", strerror(errno));
            return CLI_FAILED;
        }
        drop_nuls(piece + kept, (size_t)n);
        size_t len = kept + (size_t)n;
        int code = send_piece(scan, piece, len, &answer);
        if (code != CLI_GO_ON) {
            return code;
        }
        if ((size_t)n < PIECE_BYTES || gh_json_len(gh_json_get(answer.json, "finding")) > 0) {
            return report(scan, &answer, base);
        }
        kept = OVERLAP_BYTES;
        base += (int64_t)(len - kept);
        memmove(piece, piece + len - kept, kept);
    }
    cli_say("The text is too long to be scanned (more than %u MiB).", MAX_BYTES >> 20);
    return CLI_FAILED;
}

static int run_scan(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    const char *session = NULL;
    const char *dir = NULL;
    struct scan scan = {.cli = &cli};
    const struct cli_opt opts[] = {{"--session", CLI_OPT_TEXT, &session},
                                   {"--dir", CLI_OPT_TEXT, &dir},
                                   {"--source", CLI_OPT_TEXT, &scan.source},
                                   {NULL, CLI_OPT_END, NULL}};
    char id[64] = "";
    gh_autofree char *where = NULL;
    gh_autoclose int fd = -1;
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 1, 1});
    if (code != CLI_GO_ON) {
        return code;
    }
    fd = open_input(cli.args.rest[0]);
    if (fd < 0) {
        cli_say("%s cannot be opened: %s.", cli.args.rest[0], strerror(errno));
        return CLI_FAILED;
    }
    code = cli_connect(&cli, CLI_AS_AGENT);
    if (code == CLI_GO_ON) {
        code = session != NULL ? cli_resolve_session(&cli, session, id)
                               : cli_session_open(&cli, dir, NULL, id, &where);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (scan.source == NULL) {
        scan.source = strcmp(cli.args.rest[0], "-") == 0 ? "stdin" : cli.args.rest[0];
    }
    snprintf(scan.path, sizeof scan.path, "/v1/sessions/%s/scan", id);
    return scan_input(&scan, fd);
}
