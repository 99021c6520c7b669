/* http_floor: what a service over libmicrohttpd and jansson cannot be faster than.
 *
 *   http_floor [PORT] [SECONDS]     prints the address, ends by itself
 *
 * POST /g parses the JSON body, reads two fields, builds an answer of about 200 bytes as JSON and
 * sends it: no limits, no checks, no headers, no storage. Every other path answers the CPU time
 * used so far as {"cpu_us":N}. Goals of the service are ratios to this program, both run in turns
 * in the same minute; the figures alone depend on the machine. The connection memory is 4 KiB, the
 * least that serves plain clients, for the library clears it at each request.
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BODY_BYTES = 2048, POOL_BYTES = 4096, THREADS = 2, CONNECTIONS = 10000 };

struct request {
    size_t len;
    char body[BODY_BYTES];
};

static json_t *work(const struct request *request)
{
    json_t *root = json_loadb(request->body, request->len, 0, NULL);
    if (root == NULL) {
        return NULL;
    }
    const char *tool = json_string_value(json_object_get(root, "tool"));
    const char *session = json_string_value(json_object_get(root, "session"));
    json_t *answer =
        json_pack("{s:s,s:s,s:s,s:s,s:i}", "decision", "allow", "session",
                  session != NULL ? session : "", "tool", tool != NULL ? tool : "", "reason",
                  "matched a rule: reading inside the working directory needs no one", "rule", 17);
    json_decref(root);
    return answer;
}

static json_t *cpu_time(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    json_int_t us = (json_int_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                    u.ru_utime.tv_usec + u.ru_stime.tv_usec;
    return json_pack("{s:I}", "cpu_us", us);
}

/* Send `answer` (taken; NULL closes the connection). */
static enum MHD_Result send_json(struct MHD_Connection *mhd, json_t *answer)
{
    char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    if (text == NULL) {
        return MHD_NO;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result done = MHD_queue_response(mhd, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return done;
}

static enum MHD_Result http_exchange_step(void *cls, struct MHD_Connection *mhd, const char *url,
                                          const char *method, const char *version, const char *data,
                                          size_t *len, void **context)
{
    struct request *request = *context;
    (void)cls;
    (void)method;
    (void)version;
    if (request == NULL) {
        request = malloc(sizeof(*request));
        *context = request;
        if (request != NULL) {
            request->len = 0;
        }
        return request != NULL ? MHD_YES : MHD_NO;
    }
    if (*len > 0) {
        size_t room = sizeof(request->body) - request->len;
        size_t n = *len < room ? *len : room;
        memcpy(request->body + request->len, data, n);
        request->len += n;
        *len = 0;
        return MHD_YES;
    }
    return send_json(mhd, strcmp(url, "/g") == 0 ? work(request) : cpu_time());
}

static void end(void *cls, struct MHD_Connection *mhd, void **context,
                enum MHD_RequestTerminationCode why)
{
    (void)cls;
    (void)mhd;
    (void)why;
    free(*context);
    *context = NULL;
}

static struct MHD_Daemon *start(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, http_exchange_step, NULL,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&a,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_NOTIFY_COMPLETED, end,
        NULL, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    struct MHD_Daemon *daemon = start((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    if (daemon == NULL) {
        fprintf(stderr, "http_floor: cannot listen\n");
        return 1;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("127.0.0.1:%u\n", info != NULL ? (unsigned)info->port : 0);
    fflush(stdout);
    struct timespec life = {argc > 2 ? atol(argv[2]) : 300, 0};
    sigtimedwait(&ends, NULL, &life);
    MHD_stop_daemon(daemon);
    return 0;
}
