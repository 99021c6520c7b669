#include <string.h>

#include "auth/auth.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/call.h"
#include "cli/commands.h"

static int run_token(int argc, char **argv);

const struct cli_command cli_cmd_token = {
    .name = "token",
    .summary = "add, list and revoke tokens",
    .help = "gatehouse token add NAME --role agent|viewer|approver|metrics [--expires 30d]\n"
            "gatehouse token list\n"
            "gatehouse token revoke NAME|ID\n\n"
            "  gatehouse token add ci --role agent --expires 30d > ci.token\n"
            "  gatehouse token list\n"
            "  gatehouse token revoke ci\n\n"
            "The token is printed once, alone on standard output, and kept nowhere. Works\n"
            "with and without a running service, which sees changes within a second.\n",
    .run = run_token,
};

struct token_opts {
    const char *role;
    int64_t expires_s; /* -1: never */
};

static void write_token(struct gh_jw *w, const struct auth_token *token)
{
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "id", token->id);
    gh_jw_str(w, "name", token->name);
    gh_jw_str(w, "role", auth_role_name(token->role));
    gh_jw_time(w, "created_at", token->created_ms);
    gh_jw_time(w, "expires_at", token->expires_ms);
    gh_jw_time(w, "revoked_at", token->revoked_ms);
    gh_jw_bool(w, "login", token->is_login);
}

static void put_json(struct cli_out *out, const struct gh_buf *text)
{
    struct cli_out_cut rest = {{0}, 0};
    out->buf.failed = out->buf.failed || text->failed;
    cli_out_json(out, gh_buf_str(text), text->len, &rest);
    cli_out_puts(out, "\n");
}

static int fail(const struct gh_err *err)
{
    cli_say("%s (%s)", err->detail, gh_code_slug(err->code));
    return CLI_FAILED;
}

static int add_token(struct cli *cli, const struct token_opts *opts)
{
    struct gh_err err = {0};
    struct auth_token token = {0};
    char secret[AUTH_SECRET] = "";
    if (cli->args.n_rest != 2 || opts->role == NULL) {
        return cli_usage(cli, "token add needs a NAME and --role.");
    }
    enum auth_role role = auth_role_find(opts->role);
    if (role == AUTH_NONE) {
        return cli_usage(cli, "The role is agent, viewer, approver or metrics.");
    }
    if (opts->expires_s == 0) {
        return cli_usage(cli, "--expires must be longer than nothing.");
    }
    int64_t expires_ms = opts->expires_s < 0 ? -1 : gh_clock_wall_ms() + opts->expires_s * 1000;
    if (auth_tokens_add(cli->state_dir, cli->args.rest[1], role, expires_ms, false, secret, &token,
                        &err) != GH_OK) {
        return err.code == GH_INVALID ? cli_usage(cli, "%s", err.detail) : fail(&err);
    }
    if (cli->args.json) {
        gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
        struct gh_jw w = {.buf = &text, .comma = false};
        write_token(&w, &token);
        gh_jw_str(&w, "token", secret);
        gh_jw_end(&w);
        put_json(&cli->out, &text);
    } else {
        cli_out_printf(&cli->out, "%s\n", secret);
    }
    explicit_bzero(secret, sizeof secret);
    return cli_finish(cli, CLI_DONE);
}

struct listing {
    struct cli_out *out; /* table, or NULL */
    struct gh_jw w;      /* array of objects, while out is NULL */
    int64_t now_ms;
};

static const char *token_state(const struct auth_token *token, int64_t now_ms)
{
    if (token->revoked_ms >= 0) {
        return "revoked";
    }
    return token->expires_ms >= 0 && token->expires_ms <= now_ms ? "expired" : "valid";
}

static void list_one(const struct auth_token *token, void *cookie)
{
    struct listing *listing = cookie;
    char expires[GH_CLOCK_TEXT] = "never";
    const char *state = token_state(token, listing->now_ms);
    if (listing->out == NULL) {
        write_token(&listing->w, token);
        gh_jw_str(&listing->w, "state", state);
        gh_jw_end(&listing->w);
        return;
    }
    if (token->expires_ms >= 0) {
        gh_clock_format(token->expires_ms, expires);
        expires[16] = '\0'; /* minutes are enough for a table */
    }
    cli_out_cell(listing->out, cli_short_id(token->id), CLI_SHORT_ID);
    cli_out_cell(listing->out, auth_role_name(token->role), 8);
    cli_out_cell(listing->out, state, 7);
    cli_out_cell(listing->out, expires, 16);
    cli_out_cell(listing->out, token->is_login ? "page" : "", 5);
    cli_out_last(listing->out, token->name, 49);
}

static int list_tokens(struct cli *cli)
{
    struct gh_err err = {0};
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    struct listing listing = {.out = cli->args.json ? NULL : &cli->out,
                              .w = {.buf = &text, .comma = false},
                              .now_ms = gh_clock_wall_ms()};
    if (cli->args.n_rest != 1) {
        return cli_usage(cli, "token list takes nothing more.");
    }
    if (cli->args.json) {
        gh_jw_obj(&listing.w, NULL);
        gh_jw_arr(&listing.w, "items");
    } else {
        cli_out_puts(&cli->out, "ID       ROLE     STATE   EXPIRES (UTC)    LOGIN NAME\n");
    }
    if (auth_tokens_each(cli->state_dir, list_one, &listing, &err) != GH_OK) {
        return fail(&err);
    }
    if (cli->args.json) {
        gh_jw_arr_end(&listing.w);
        gh_jw_null(&listing.w, "next_cursor");
        gh_jw_end(&listing.w);
        put_json(&cli->out, &text);
    }
    return cli_finish(cli, CLI_DONE);
}

static int revoke_token(struct cli *cli)
{
    struct gh_err err = {0};
    if (cli->args.n_rest != 2) {
        return cli_usage(cli, "token revoke needs one NAME or ID.");
    }
    if (auth_tokens_revoke(cli->state_dir, cli->args.rest[1], &err) != GH_OK) {
        return fail(&err);
    }
    cli_out_puts(&cli->out, cli->args.json ? "{\"revoked\":true}\n" : "Revoked.\n");
    return cli_finish(cli, CLI_DONE);
}

static int run_token(int argc, char **argv)
{
    gh_auto(cli_fini) struct cli cli;
    struct token_opts token = {.role = NULL, .expires_s = -1};
    const struct cli_opt opts[] = {{"--role", CLI_OPT_TEXT, &token.role},
                                   {"--expires", CLI_OPT_SECS, &token.expires_s},
                                   {NULL, CLI_OPT_END, NULL}};
    int code = cli_begin(&cli, argc, argv, &(struct cli_syntax){opts, 1, 2});
    if (code != CLI_GO_ON) {
        return code;
    }
    if (strcmp(cli.args.rest[0], "add") == 0) {
        return add_token(&cli, &token);
    }
    if (token.role != NULL || token.expires_s >= 0) {
        return cli_usage(&cli, "--role and --expires go with token add.");
    }
    if (strcmp(cli.args.rest[0], "list") == 0) {
        return list_tokens(&cli);
    }
    return strcmp(cli.args.rest[0], "revoke") == 0
               ? revoke_token(&cli)
               : cli_usage(&cli, "The word behind token is add, list or revoke.");
}
