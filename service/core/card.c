#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/fs.h"
#include "core/state.h"
#include "text/diff.h"
#include "text/neutral.h"

#define MAX_OLD_BYTES ((size_t)4 << 20)
#define MAX_DIFF_LINES 4000
#define MAX_TEXT_BYTES ((size_t)256 << 10)

void card_fini(struct card *card)
{
    gh_buf_fini(&card->fixed);
    gh_buf_fini(&card->texts);
}

/* ---- display: the exact action, safe to look at ---- */

/* Inside the project a path is shown relative to it. */
static size_t show_path(const struct place *place, const char *path, struct gh_buf *out)
{
    size_t n = strlen(place->working_dir);
    if (strcmp(path, place->working_dir) == 0) {
        path = ".";
    } else if (gate_path_within(path, place->working_dir) && path[n] == '/') {
        path += n + 1;
    }
    return text_neutral(path, strlen(path), false, out);
}

static size_t show_command(const struct gate_target *target, struct gh_buf *out)
{
    size_t hidden = text_shell_word(target->program, out);
    for (size_t i = 0; i < target->n_args; i++) {
        gh_buf_putc(out, ' ');
        hidden += text_shell_word(target->args[i], out);
    }
    return hidden;
}

static size_t show_part(const struct place *place, const struct call_part *part,
                        const struct judged_part *judged, struct gh_buf *out)
{
    const struct gate_target *target = &part->target;
    size_t hidden = 0;
    switch (target->form) {
    case GATE_COMMAND:
        return show_command(target, out);
    case GATE_PATH:
        gh_buf_printf(out, "%s ", gate_action_name(part->action));
        return show_path(place, gate_facts_shown(&judged->facts, false), out);
    case GATE_MOVE_PATHS:
        gh_buf_puts(out, "move ");
        hidden = show_path(place, gate_facts_shown(&judged->facts, false), out);
        gh_buf_puts(out, " -> ");
        return hidden + show_path(place, gate_facts_shown(&judged->facts, true), out);
    case GATE_DESCRIPTION:
        return text_neutral(target->description, strlen(target->description), true, out);
    case GATE_FORM_NONE:
    case GATE_N_FORMS:
        break;
    }
    return hidden;
}

static void words_json(const struct gate_target *target, struct gh_jw *w)
{
    gh_jw_arr(w, "words");
    for (size_t i = 0; i <= target->n_args; i++) {
        gh_auto(gh_buf_fini) struct gh_buf word = GH_BUF_INIT;
        text_shell_word(i == 0 ? target->program : target->args[i - 1], &word);
        gh_jw_str(w, NULL, gh_buf_str(&word));
    }
    gh_jw_arr_end(w);
}

/* One line a part when there are several: no text of one may look like another. */
static size_t show_line(const struct place *place, const struct call_part *part,
                        const struct judged_part *judged, size_t number, struct gh_buf *out)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    size_t hidden = show_part(place, part, judged, &text);
    gh_buf_printf(out, "%s%zu. ", number > 1 ? "\n" : "", number);
    for (const char *c = gh_buf_str(&text); *c != '\0'; c++) {
        if (*c == '\n') {
            gh_buf_puts(out, "\\n");
        } else {
            gh_buf_putc(out, *c);
        }
    }
    if (part->target.form == GATE_COMMAND) {
        gh_buf_puts(out, "  (in ");
        hidden += show_path(place, judged->facts.cwd, out);
        gh_buf_putc(out, ')');
    }
    return hidden;
}

static void display_json(const struct place *place, const struct call *call,
                         const struct judged *judged, struct gh_jw *w)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    size_t hidden = 0;
    if (judged->n == 1) {
        hidden = show_part(place, &call->parts[0], &judged->parts[0], &text);
    }
    for (size_t i = 0; judged->n > 1 && i < judged->n; i++) {
        hidden += show_line(place, &call->parts[i], &judged->parts[i], i + 1, &text);
    }
    gh_jw_obj(w, "display");
    gh_jw_str(w, "text", gh_buf_str(&text));
    gh_jw_int(w, "hidden_characters", (int64_t)hidden);
    if (judged->n == 1 && call->parts[0].target.form == GATE_COMMAND) {
        gh_auto(gh_buf_fini) struct gh_buf cwd = GH_BUF_INIT;
        words_json(&call->parts[0].target, w);
        text_neutral(judged->parts[0].facts.cwd, strlen(judged->parts[0].facts.cwd), false, &cwd);
        gh_jw_str(w, "cwd", gh_buf_str(&cwd));
    }
    gh_jw_end(w);
}

/* ---- preview: hunks made here, from the file itself ---- */

struct change {
    char *old; /* owned; "" for a file that does not exist */
    size_t old_len;
    const char *new;
    bool is_shown;       /* there is something to compare */
    bool old_differs;    /* the request's idea of the old text is wrong */
    bool is_old_unknown; /* too large, not a file, not readable */
    bool is_linked;      /* the file has other names: what it holds may belong elsewhere */
};

/* Read the present content. A file with other names is not read: a hard link of a denied file would
 * show it to the one who made the link. */
static enum gh_code read_old(const char *path, struct change *ret)
{
    struct gh_err err;
    struct stat st;
    gh_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT ? GH_NOT_FOUND : GH_IO;
    }
    if (fstat(fd, &st) != 0 || (S_ISREG(st.st_mode) && st.st_nlink > 1)) {
        ret->is_linked = true;
        return GH_IO;
    }
    return gh_fs_read_fd(fd, path, MAX_OLD_BYTES, &ret->old, &ret->old_len, &err);
}

/* Read what a write or delete would change. Links are already resolved; one that appears is
 * refused. */
static enum gh_code read_change(const struct call_part *part, const struct judged_part *judged,
                                struct change *ret, struct gh_err *err)
{
    bool is_delete = part->action == GATE_DELETE;
    if (part->target.form != GATE_PATH || (!is_delete && part->new_text == NULL)) {
        return GH_OK;
    }
    enum gh_code code = read_old(gate_facts_shown(&judged->facts, false), ret);
    bool is_readable = code == GH_OK;
    if (code == GH_NOT_FOUND) {
        ret->old = strdup("");
        if (ret->old == NULL) {
            return gh_fail(err, GH_NOMEM, "There is not enough memory for the preview.");
        }
        is_readable = !is_delete;
    }
    ret->new = part->new_text != NULL ? part->new_text : "";
    if (!is_readable && !is_delete) { /* what will be there is shown, what is there is not known */
        ret->old = strdup("");
        ret->is_old_unknown = true;
        is_readable = ret->old != NULL;
    }
    ret->is_shown = is_readable;
    ret->old_differs = part->old_text != NULL && is_readable && !ret->is_old_unknown &&
                       (strlen(part->old_text) != ret->old_len ||
                        memcmp(part->old_text, ret->old, ret->old_len) != 0);
    return GH_OK;
}

static void file_json(const struct place *place, const struct judged_part *judged,
                      const struct change *change, struct gh_jw *w)
{
    gh_auto(gh_buf_fini) struct gh_buf path = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf hunks = GH_BUF_INIT;
    struct text_diff diff = {0};
    struct gh_err err;
    show_path(place, gate_facts_shown(&judged->facts, false), &path);
    if (text_diff_hunks(change->old, change->old_len, change->new, strlen(change->new),
                        MAX_DIFF_LINES, &hunks, &diff, &err) != GH_OK) {
        diff = (struct text_diff){.is_cut = true};
        gh_buf_fini(&hunks);
    }
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "path", gh_buf_str(&path));
    gh_jw_int(w, "added", (int64_t)diff.added);
    gh_jw_int(w, "removed", (int64_t)diff.removed);
    gh_jw_bool(w, "binary", diff.is_binary);
    gh_jw_bool(w, "cut", diff.is_cut);
    gh_jw_int(w, "old_bytes", (int64_t)change->old_len);
    gh_jw_int(w, "new_bytes", (int64_t)strlen(change->new));
    gh_jw_raw(w, "hunks", hunks.len > 0 ? gh_buf_str(&hunks) : "[]");
    gh_jw_end(w);
}

/* The agent's preview; without one, and without a diff, the call's arguments. */
static const char *preview_text(const struct call *call, bool has_files, struct gh_buf *arguments)
{
    if (call->preview != NULL && call->preview[0] != '\0') {
        return call->preview;
    }
    if (has_files || gh_json_len(call->arguments) == 0) {
        return NULL;
    }
    gh_json_canonical(call->arguments, arguments);
    return gh_buf_str(arguments);
}

/* Neutralised and, beyond what anybody reads, cut with its true length said. */
static void cut_text_json(const char *text, struct gh_jw *w)
{
    size_t len = text != NULL ? strlen(text) : 0;
    size_t shown = len < MAX_TEXT_BYTES ? len : MAX_TEXT_BYTES;
    while (shown < len && shown > 0 && ((unsigned char)text[shown] & 0xC0) == 0x80) {
        shown--;
    }
    if (text == NULL) {
        gh_jw_null(w, "text");
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf neutral = GH_BUF_INIT;
    text_neutral(text, shown, true, &neutral);
    gh_jw_str(w, "text", gh_buf_str(&neutral));
    gh_jw_int(w, "text_bytes", (int64_t)len);
    gh_jw_bool(w, "cut", shown < len);
}

static void preview_json(const struct place *place, const struct call *call,
                         const struct judged *judged, const struct change *changes, struct gh_jw *w)
{
    bool has_files = false;
    for (size_t i = 0; i < judged->n; i++) {
        has_files = has_files || changes[i].is_shown;
    }
    gh_auto(gh_buf_fini) struct gh_buf arguments = GH_BUF_INIT;
    const char *text = preview_text(call, has_files, &arguments);
    gh_jw_obj(w, "preview");
    gh_jw_str(w, "kind", has_files ? "diff" : text != NULL ? "text" : "none");
    gh_jw_arr(w, "files");
    for (size_t i = 0; i < judged->n; i++) {
        if (changes[i].is_shown) {
            file_json(place, &judged->parts[i], &changes[i], w);
        }
    }
    gh_jw_arr_end(w);
    cut_text_json(text, w);
    gh_jw_end(w);
}

static void texts_json(const struct judged *judged, const struct change *changes,
                       struct gh_buf *out)
{
    struct gh_jw w = {out, false};
    gh_jw_obj(&w, NULL);
    gh_jw_arr(&w, "parts");
    for (size_t i = 0; i < judged->n; i++) {
        if (changes[i].is_shown) {
            gh_jw_obj(&w, NULL);
            gh_jw_str(&w, "path", gate_facts_shown(&judged->parts[i].facts, false));
            gh_jw_strn(&w, "old", changes[i].old, changes[i].old_len);
            gh_jw_str(&w, "new", changes[i].new);
            gh_jw_end(&w);
        }
    }
    gh_jw_arr_end(&w);
    gh_jw_end(&w);
}

/* ---- digest ---- */

static void hash_member(struct gh_jw *w, const char *key, const void *data, size_t len)
{
    if (data == NULL) {
        gh_jw_null(w, key);
        return;
    }
    unsigned char digest[GH_SHA256];
    char hex[GH_HEX];
    gh_id_sha256(data, len, digest);
    gh_id_hex(digest, hex);
    gh_jw_str(w, key, hex);
}

static void hash_text(struct gh_jw *w, const char *key, const char *text)
{
    hash_member(w, key, text, text != NULL ? strlen(text) : 0);
}

static void digest_part(const struct call_part *part, const struct judged_part *judged,
                        const struct change *change, struct gh_jw *w)
{
    gh_jw_obj(w, NULL);
    gh_jw_str(w, "action", gate_action_name(part->action));
    hash_text(w, "new", part->new_text);
    hash_member(w, "old", change->old, change->old_len);
    gh_auto(gh_buf_fini) struct gh_buf readings = GH_BUF_INIT;
    gate_facts_readings_json(&judged->facts, &readings);
    gh_jw_str(w, "program", judged->facts.resolved);
    gh_jw_raw(w, "readings", gh_buf_str(&readings));
    gh_jw_raw(w, "target", gh_buf_str(&judged->target));
    gh_jw_end(w);
}

/* Canonical by construction: keys are written in sorted order, without blanks. */
static void make_digest(const struct card_session *session, const struct call *call,
                        const struct judged *judged, const struct change *changes,
                        struct card *card)
{
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    gh_auto(gh_buf_fini) struct gh_buf arguments = GH_BUF_INIT;
    struct gh_jw w = {&text, false};
    char hex[GH_HEX];
    if (call->arguments != NULL) {
        gh_json_canonical(call->arguments, &arguments);
    }
    gh_jw_obj(&w, NULL);
    hash_member(&w, "arguments", arguments.data, arguments.len);
    if (call->execution != NULL) { /* environment, input, network: how it will run */
        gh_auto(gh_buf_fini) struct gh_buf execution = GH_BUF_INIT;
        gh_json_canonical(call->execution, &execution);
        hash_member(&w, "execution", execution.data, execution.len);
        card->fixed.failed = card->fixed.failed || execution.failed;
    }
    gh_id_hex(card->operands, hex);
    gh_jw_str(&w, "operands", hex);
    gh_jw_arr(&w, "parts");
    for (size_t i = 0; i < judged->n; i++) {
        digest_part(&call->parts[i], &judged->parts[i], &changes[i], &w);
    }
    gh_jw_arr_end(&w);
    hash_text(&w, "preview", call->preview);
    gh_jw_str(&w, "session", session->id);
    gh_jw_str(&w, "tool", call->tool);
    gh_jw_end(&w);

    unsigned char digest[GH_SHA256];
    gh_id_sha256(gh_buf_str(&text), text.len, digest);
    gh_id_hex(digest, hex);
    snprintf(card->digest, sizeof card->digest, "sha256-%s", hex);
    card->fixed.failed = card->fixed.failed || text.failed || arguments.failed;
}

/* ---- the whole card ---- */

static void parts_list_json(const struct call *call, const struct judged *judged, struct gh_jw *w)
{
    gh_jw_arr(w, "parts");
    for (size_t i = 0; i < judged->n; i++) {
        gh_jw_obj(w, NULL);
        gh_jw_str(w, "action", gate_action_name(call->parts[i].action));
        gh_jw_raw(w, "target", gh_buf_str(&judged->parts[i].target));
        warning_json(judged->parts[i].warning, w, "warning");
        gh_auto(gh_buf_fini) struct gh_buf readings = GH_BUF_INIT;
        gate_facts_readings_json(&judged->parts[i].facts, &readings);
        if (readings.len > 2) { /* more than {} */
            gh_jw_raw(w, "readings", gh_buf_str(&readings));
        }
        gh_jw_end(w);
    }
    gh_jw_arr_end(w);
}

/* The gravest warning of all parts. */
static const char *warning_of(const struct judged *judged, const struct change *changes)
{
    const char *found = "";
    for (size_t i = 0; i < judged->n; i++) {
        if (judged->parts[i].warning[0] != '\0') {
            return judged->parts[i].warning;
        }
        gh_auto(gh_buf_fini) struct gh_buf readings = GH_BUF_INIT;
        gate_facts_readings_json(&judged->parts[i].facts, &readings);
        if (strstr(gh_buf_str(&readings), "lexical\":") != NULL && found[0] == '\0') {
            found = "two_readings";
        }
        if (changes[i].is_linked) {
            found = "hard_link";
        } else if (changes[i].is_old_unknown && found[0] == '\0') {
            found = "old_not_shown";
        } else if (changes[i].old_differs && found[0] == '\0') {
            found = "old_differs";
        }
    }
    return found;
}

static void why_text(const struct card_session *session, const struct call *call,
                     const struct judged *judged, char *out, size_t size)
{
    const struct judged_part *part = &judged->parts[judged->decider];
    if (!session->is_known_tool) {
        snprintf(out, size, "The tool is not registered, so it gets nothing without a person.");
    } else if (part->facts.kernel.is_gate_config) {
        snprintf(out, size,
                 "It changes the settings of an agent or of its gate; that is always asked.");
    } else if (part->facts.kernel.runs_later) {
        snprintf(out, size, "It changes a file that runs code later (%s); that is always asked.",
                 part->facts.later != NULL ? part->facts.later : "at a login");
    } else if (call->parts[judged->decider].action == GATE_MEMORY) {
        snprintf(out, size, "A change of the lasting preferences is asked every time.");
    } else {
        snprintf(out, size, "Nobody has allowed exactly this always in this session.");
    }
}

static void narration_json(const struct call *call, struct gh_jw *w)
{
    if (call->narration == NULL) {
        gh_jw_null(w, "narration");
        return;
    }
    gh_auto(gh_buf_fini) struct gh_buf text = GH_BUF_INIT;
    text_neutral(call->narration, strlen(call->narration), true, &text);
    gh_jw_str(w, "narration", gh_buf_str(&text));
}

static void write_fixed(const struct card_session *session, const struct place *place,
                        const struct call *call, const struct judged *judged,
                        const struct change *changes, struct card *card)
{
    struct gh_jw w = {&card->fixed, false};
    char why[400];
    why_text(session, call, judged, why, sizeof why);
    gh_jw_str(&w, "tool", call->tool);
    gh_jw_str(&w, "action", gate_action_name(call->parts[judged->decider].action));
    gh_jw_raw(&w, "target", gh_buf_str(&judged->parts[judged->decider].target));
    parts_list_json(call, judged, &w);
    display_json(place, call, judged, &w);
    preview_json(place, call, judged, changes, &w);
    narration_json(call, &w);
    gh_jw_str(&w, "why", why);
    warning_json(warning_of(judged, changes), &w, "warning");
    taint_json(&session->taint, &w, "taint");
    gh_jw_raw(&w, "offered",
              card->may_remember ? "[\"allow\",\"allow_always\",\"deny\"]"
                                 : "[\"allow\",\"deny\"]");
    gh_jw_str(&w, "digest", card->digest);
}

static void free_changes(struct change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(changes[i].old);
    }
    free(changes);
}

static enum gh_code fill_card(const struct card_session *session, const struct place *place,
                              const struct call *call, const struct judged *judged,
                              struct change *changes, struct card *card, struct gh_err *err)
{
    for (size_t i = 0; i < judged->n; i++) {
        GH_TRY(read_change(&call->parts[i], &judged->parts[i], &changes[i], err));
    }
    GH_TRY(card_operands(place, judged, call, card->operands, err));
    card->may_remember = true;
    for (size_t i = 0; i < judged->n; i++) {
        const struct gate_verdict *verdict = &judged->parts[i].verdict;
        card->may_remember =
            card->may_remember && (verdict->decision != GATE_ASK || verdict->may_remember);
    }
    make_digest(session, call, judged, changes, card);
    write_fixed(session, place, call, judged, changes, card);
    texts_json(judged, changes, &card->texts);
    if (card->fixed.failed || card->texts.failed) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the approval.");
    }
    return GH_OK;
}

enum gh_code card_make(const struct card_session *session, const struct place *place,
                       const struct call *call, const struct judged *judged, struct card *ret,
                       struct gh_err *err)
{
    struct change *changes = calloc(judged->n, sizeof *changes);
    if (changes == NULL) {
        return gh_fail(err, GH_NOMEM, "There is not enough memory for the approval.");
    }
    *ret = (struct card){.fixed = GH_BUF_INIT, .texts = GH_BUF_INIT};
    enum gh_code code = fill_card(session, place, call, judged, changes, ret, err);
    free_changes(changes, judged->n);
    if (code != GH_OK) {
        card_fini(ret);
    }
    return code;
}
