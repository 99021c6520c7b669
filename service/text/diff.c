#include "text/diff.h"

#include <git2.h>

#include "base/auto.h"
#include "text/glyph.h"
#include "text/neutral.h"

#define CONTEXT_LINES 3
#define MAX_LINE_CHARACTERS 2000

/* What libgit2's callbacks write to. */
struct writer {
    struct gh_jw json;
    struct gh_buf text; /* one neutralised line, reused */
    struct text_diff diff;
    size_t lines_left;
    bool is_in_hunk; /* a hunk is open in `json` */
};

static void release_writer(struct writer *writer)
{
    gh_buf_fini(&writer->text);
}

/* libgit2 counts its users itself, so a pair around each call needs no state of ours. */
static void leave_git(const int *users)
{
    if (*users > 0) {
        git_libgit2_shutdown();
    }
}

static void close_hunk(struct writer *writer)
{
    if (writer->is_in_hunk) {
        gh_jw_arr_end(&writer->json);
        gh_jw_end(&writer->json);
        writer->is_in_hunk = false;
    }
}

/* A fresh neutralised copy in `writer->text`. */
static void neutralise(struct writer *writer, const char *text, size_t len)
{
    writer->text.len = 0;
    text_neutral(text, len, false, &writer->text);
    writer->json.buf->failed |= writer->text.failed;
}

static void put_text(struct writer *writer, const char *key)
{
    const char *text = writer->text.len > 0 ? writer->text.data : "";
    gh_jw_strn(&writer->json, key, text, writer->text.len);
}

static int take_binary(const git_diff_delta *delta, const git_diff_binary *binary, void *payload)
{
    struct writer *writer = payload;
    (void)delta;
    (void)binary;
    writer->diff.is_binary = true;
    return 0;
}

static int take_hunk(const git_diff_delta *delta, const git_diff_hunk *hunk, void *payload)
{
    struct writer *writer = payload;
    (void)delta;
    close_hunk(writer);
    if (writer->lines_left == 0) {
        return 0;
    }
    size_t len = hunk->header_len;
    while (len > 0 && hunk->header[len - 1] == '\n') {
        len--;
    }
    neutralise(writer, hunk->header, len);
    gh_jw_obj(&writer->json, NULL);
    gh_jw_int(&writer->json, "old_start", hunk->old_start);
    gh_jw_int(&writer->json, "old_lines", hunk->old_lines);
    gh_jw_int(&writer->json, "new_start", hunk->new_start);
    gh_jw_int(&writer->json, "new_lines", hunk->new_lines);
    put_text(writer, "header");
    gh_jw_arr(&writer->json, "lines");
    writer->is_in_hunk = true;
    return 0;
}

static void put_number(struct writer *writer, const char *key, int number)
{
    if (number < 0) {
        gh_jw_null(&writer->json, key);
    } else {
        gh_jw_int(&writer->json, key, number);
    }
}

/* Bytes of the first MAX_LINE_CHARACTERS characters. */
static size_t cut_line(const char *text, size_t len)
{
    struct glyph_walk walk = GLYPH_WALK(text, len);
    struct glyph glyph;
    for (size_t i = 0; i < MAX_LINE_CHARACTERS && glyph_next(&walk, &glyph); i++) {
    }
    return walk.at;
}

static void put_line(struct writer *writer, const git_diff_line *line)
{
    const char kind[2] = {line->origin, '\0'};
    bool has_newline = line->content_len > 0 && line->content[line->content_len - 1] == '\n';
    size_t len = line->content_len - (has_newline ? 1 : 0);
    size_t shown = cut_line(line->content, len);
    neutralise(writer, line->content, shown);
    gh_jw_obj(&writer->json, NULL);
    gh_jw_str(&writer->json, "kind", kind);
    put_number(writer, "old", line->old_lineno);
    put_number(writer, "new", line->new_lineno);
    put_text(writer, "text");
    if (!has_newline) {
        gh_jw_bool(&writer->json, "no_newline", true);
    }
    if (shown < len) {
        gh_jw_bool(&writer->json, "cut", true);
    }
    gh_jw_end(&writer->json);
}

static int take_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
                     const git_diff_line *line, void *payload)
{
    struct writer *writer = payload;
    (void)delta;
    (void)hunk;
    bool is_added = line->origin == GIT_DIFF_LINE_ADDITION;
    bool is_removed = line->origin == GIT_DIFF_LINE_DELETION;
    if (!is_added && !is_removed && line->origin != GIT_DIFF_LINE_CONTEXT) {
        return 0; /* "no newline at end of file": the line before it said so */
    }
    writer->diff.added += is_added;
    writer->diff.removed += is_removed;
    if (writer->lines_left == 0) {
        writer->diff.is_cut = true;
        return 0;
    }
    writer->lines_left--;
    put_line(writer, line);
    return 0;
}

static size_t count_lines(const char *text, size_t len)
{
    size_t lines = len > 0 && text[len - 1] != '\n';
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

/* Answer for texts that are too long to compare. */
static enum gh_code refuse_long(size_t removed, size_t added, struct gh_buf *out,
                                struct text_diff *ret, struct gh_err *err)
{
    gh_buf_puts(out, "[]");
    if (out->failed) {
        return gh_fail(err, GH_NOMEM, "no memory for the difference");
    }
    *ret = (struct text_diff){.added = added, .removed = removed, .is_cut = true};
    return GH_OK;
}

enum gh_code text_diff_hunks(const char *old, size_t old_len, const char *new, size_t new_len,
                             size_t max_lines, struct gh_buf *out, struct text_diff *ret,
                             struct gh_err *err)
{
    size_t old_lines = count_lines(old, old_len);
    size_t new_lines = count_lines(new, new_len);
    if (old_lines + new_lines > TEXT_DIFF_MAX_LINES) {
        return refuse_long(old_lines, new_lines, out, ret, err);
    }
    gh_auto(leave_git) const int users = git_libgit2_init();
    if (users < 0) {
        return gh_fail(err, GH_NOMEM, "the diff library could not be started");
    }
    git_diff_options options;
    git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
    options.context_lines = CONTEXT_LINES;
    gh_auto(release_writer) struct writer writer = {
        .json = {.buf = out},
        .text = GH_BUF_INIT,
        .lines_left = max_lines,
    };
    gh_jw_arr(&writer.json, NULL);
    int failed = git_diff_buffers(old, old_len, NULL, new, new_len, NULL, &options, NULL,
                                  take_binary, take_hunk, take_line, &writer);
    close_hunk(&writer);
    gh_jw_arr_end(&writer.json);
    if (failed != 0 || out->failed) {
        return gh_fail(err, GH_NOMEM, "no memory for the difference");
    }
    *ret = writer.diff;
    return GH_OK;
}

void text_diff_open(void)
{
    git_libgit2_init();
}

void text_diff_close(void)
{
    git_libgit2_shutdown();
}
