#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/documents.h"
#include "api/routes.h"
#include "base/auto.h"
#include "base/clock.h"

static void reply(struct http_exchange *x, struct gh_buf *body, const char *type)
{
    const struct http_header header = {"Content-Type", type};
    http_reply(x, 200, body, &header, 1);
}

void api_healthz(struct api_request *request)
{
    struct gh_buf body = GH_BUF_INIT;
    gh_buf_puts(&body, "{\"status\":\"ok\"}");
    http_reply(request->x, 200, &body, NULL, 0);
}

static void store_json(const struct store_health *health, struct gh_jw *w)
{
    gh_jw_obj(w, "store");
    gh_jw_bool(w, "writable", health->is_writable);
    gh_jw_bool(w, "damaged", health->is_damaged);
    gh_jw_str(w, "reason", health->reason[0] != '\0' ? health->reason : NULL);
    gh_jw_time(w, "last_commit_at", health->last_commit_ms > 0 ? health->last_commit_ms : -1);
    gh_jw_int(w, "audit_rows", (int64_t)health->n_rows);
    gh_jw_int(w, "errors", (int64_t)health->n_errors);
    gh_jw_end(w);
}

void api_readyz(struct api_request *request)
{
    struct store_health health;
    store_health(request->api->store, &health);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    if (health.is_writable) {
        gh_jw_obj(&w, NULL);
        gh_jw_str(&w, "status", "ready");
        store_json(&health, &w);
        gh_jw_end(&w);
        http_reply(request->x, 200, &body, NULL, 0);
        return;
    }
    struct gh_err err;
    gh_fail(&err, GH_AUDIT, "Audit log cannot be written, so everything is being denied: %s",
            health.reason);
    gh_jw_str(&w, "status_text", "degraded");
    store_json(&health, &w);
    http_problem(request->x, &err, body.failed ? NULL : gh_buf_str(&body));
}

static void kernel_json(const struct api *api, struct gh_jw *w)
{
    gh_jw_obj(w, "confinement");
    core_confinement_json(api->core, w);
    gh_jw_end(w);
}

static void listeners_json(const struct api *api, struct gh_jw *w)
{
    gh_jw_arr(w, "listeners");
    if (api->listen[0] != '\0') {
        gh_jw_str(w, NULL, api->listen);
    }
    if (api->socket != NULL) {
        gh_jw_str(w, NULL, api->socket);
    }
    gh_jw_arr_end(w);
}

void api_status(struct api_request *request)
{
    const struct api *api = request->api;
    struct store_health health;
    struct core_numbers numbers;
    char host[256] = "";
    store_health(api->store, &health);
    core_numbers(api->core, &numbers);
    gethostname(host, sizeof host - 1);
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    struct gh_jw w = {&body, false};
    gh_jw_obj(&w, NULL);
    gh_jw_str(&w, "version", api->version);
    gh_jw_str(&w, "host", host);
    gh_jw_int(&w, "uptime_s", (gh_clock_wall_ms() - api->started_ms) / 1000);
    gh_jw_time(&w, "started_at", api->started_ms);
    gh_jw_time(&w, "now", gh_clock_wall_ms());
    gh_jw_obj(&w, "you");
    gh_jw_str(&w, "name", request->who.name);
    gh_jw_str(&w, "role", auth_role_name(request->who.role));
    gh_jw_time(&w, "expires_at", request->who.expires_ms);
    gh_jw_end(&w);
    listeners_json(api, &w);
    kernel_json(api, &w);
    store_json(&health, &w);
    gh_jw_int(&w, "sessions", (int64_t)numbers.n_sessions);
    gh_jw_int(&w, "pending", (int64_t)numbers.n_pending);
    gh_jw_end(&w);
    http_reply(request->x, 200, &body, NULL, 0);
}

void api_config(struct api_request *request)
{
    gh_auto(gh_buf_fini) struct gh_buf body = GH_BUF_INIT;
    core_config_json(request->api->core, &body);
    http_reply(request->x, 200, &body, NULL, 0);
}

void api_openapi_yaml(struct api_request *request)
{
    struct gh_buf body = GH_BUF_INIT;
    gh_buf_put(&body, api_openapi.data, api_openapi.size);
    reply(request->x, &body, "application/yaml");
}

void api_openapi_json(struct api_request *request)
{
    struct gh_buf body = GH_BUF_INIT;
    struct gh_err err;
    if (config_yaml_to_json((const char *)api_openapi.data, api_openapi.size, &body, &err) !=
        GH_OK) {
        gh_buf_fini(&body);
        http_problem(request->x, &err, NULL);
        return;
    }
    reply(request->x, &body, "application/json");
}

/* ---- metrics: names of section h, fixed labels only ---- */

static void help(struct gh_buf *out, const char *name, const char *type, const char *text)
{
    gh_buf_printf(out, "# HELP gatehouse_%s %s\n# TYPE gatehouse_%s %s\n", name, text, name, type);
}

static void gauge(struct gh_buf *out, const char *name, const char *text, double value)
{
    help(out, name, "gauge", text);
    gh_buf_printf(out, "gatehouse_%s %.17g\n", name, value);
}

static void counter(struct gh_buf *out, const char *name, const char *text, uint64_t value)
{
    help(out, name, "counter", text);
    gh_buf_printf(out, "gatehouse_%s %" PRIu64 "\n", name, value);
}

static void decisions(struct gh_buf *out, const struct core_numbers *numbers)
{
    static const char *const by[] = {"system", "rule", "grant", "person", "timeout"};
    static const char *const outcomes[] = {"deny", "ask", "allow", "allow_always"};
    static const char *const states[] = {NULL,     "allowed", "allowed_always",
                                         "denied", "expired", "cancelled"};
    help(out, "decisions_total", "counter", "Settled decisions.");
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 5 && i != 1; k++) {
            gh_buf_printf(out, "gatehouse_decisions_total{outcome=\"%s\",by=\"%s\"} %" PRIu64 "\n",
                          outcomes[i], by[k], numbers->decisions[i][k]);
        }
    }
    help(out, "approvals_total", "counter", "Approvals that were settled.");
    for (size_t i = 1; i < 6; i++) {
        gh_buf_printf(out, "gatehouse_approvals_total{outcome=\"%s\"} %" PRIu64 "\n", states[i],
                      numbers->approvals[i]);
    }
}

static void requests(struct gh_buf *out, struct api *api)
{
    static const char *const methods[] = {"OTHER", "GET",   "HEAD",   "POST",
                                          "PUT",   "PATCH", "DELETE", "OPTIONS"};
    static const char *const reasons[] = {"host", "origin", "content_type", "rate"};
    help(out, "http_requests_total", "counter", "Requests that reached their handler.");
    for (size_t i = 0; i < api_n_routes; i++) {
        gh_buf_printf(out, "gatehouse_http_requests_total{route=\"%s\",method=\"%s\"} %llu\n",
                      api_routes[i].path, methods[api_routes[i].method],
                      atomic_load(&api->requests[i]));
    }
    help(out, "requests_refused_total", "counter", "Requests refused before their handler.");
    for (size_t i = 0; i < 4; i++) {
        gh_buf_printf(out, "gatehouse_requests_refused_total{reason=\"%s\"} %llu\n", reasons[i],
                      atomic_load(&api->refused[i]));
    }
}

static void process(struct gh_buf *out)
{
    struct rusage usage = {0};
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%*s %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    getrusage(RUSAGE_SELF, &usage);
    double cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    gh_buf_printf(out,
                  "# HELP process_cpu_seconds_total CPU time used.\n# TYPE "
                  "process_cpu_seconds_total counter\n"
                  "process_cpu_seconds_total %.3f\n",
                  cpu_s);
    gh_buf_printf(out,
                  "# HELP process_resident_memory_bytes Resident memory.\n"
                  "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %ld\n",
                  pages * sysconf(_SC_PAGESIZE));
}

void api_metrics(struct api_request *request)
{
    struct api *api = request->api;
    struct core_numbers numbers;
    struct store_health health;
    core_numbers(api->core, &numbers);
    store_health(api->store, &health);
    struct gh_buf body = GH_BUF_INIT;
    decisions(&body, &numbers);
    gauge(&body, "approvals_pending", "Approvals that wait for a person.",
          (double)numbers.n_pending);
    gauge(&body, "approval_oldest_pending_seconds", "Age of the oldest one.",
          (double)numbers.oldest_pending_ms / 1e3);
    gauge(&body, "sessions_active", "Active sessions.", (double)numbers.n_sessions);
    gauge(&body, "tainted_sessions", "Active sessions that read steering text.",
          (double)numbers.n_tainted);
    gauge(&body, "events_clients", "Open event streams.", (double)numbers.n_streams);
    counter(&body, "events_total", "Events emitted.", numbers.n_events);
    counter(&body, "events_dropped_total", "Streams closed because their client was too slow.",
            numbers.n_events_dropped);
    counter(&body, "auth_failures_total", "Failed authentications.", auth_failures(api->auth));
    counter(&body, "audit_append_errors_total", "Commits that failed.", health.n_errors);
    counter(&body, "audit_rows_total", "Rows of the audit log.", health.n_rows);
    counter(&body, "store_commits_total", "Commits to disk.", health.n_commits);
    gauge(&body, "store_writable", "1 while decisions can be recorded.", health.is_writable);
    gauge(&body, "audit_last_append_timestamp_seconds", "Time of the newest commit.",
          (double)health.last_commit_ms / 1e3);
    gauge(&body, "config_last_reload_success", "1 when the last reload worked.",
          numbers.is_reload_ok);
    gauge(&body, "config_last_reload_timestamp_seconds", "Time of the last reload.",
          (double)numbers.reload_ms / 1e3);
    requests(&body, api);
    help(&body, "build_info", "gauge", "Version of this program.");
    gh_buf_printf(&body, "gatehouse_build_info{version=\"%s\"} 1\n", api->version);
    process(&body);
    reply(request->x, &body, "text/plain; version=0.0.4; charset=utf-8");
}
