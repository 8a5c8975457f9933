/* A streaming server that is not the bottleneck, for tests/benchmarks/transport.py and peers.py, and that keeps its own truth.
 *
 *     cc -O2 -o server server.c && ./server        (prints its port; ends with its stdin)
 *
 * One thread, epoll. POST .../completions with these headers: x-id (number), x-tokens, x-ttft-us, x-itl-us, x-burst (1: all streams
 * get their chunks in the same moments, as an engine's step sends them); GET /set?tokens=..&ttft-us=..&itl-us=.. changes what holds
 * without them, for programs that send no headers. Each token is one HTTP chunk of one event in one send(), and holds the time of
 * that send in nanoseconds of CLOCK_MONOTONIC as "t"; the usage at the end has "received first" as its system_fingerprint, which
 * our client keeps. GET /log returns, and forgets, "id received first last" of every answer, in the order of their ends; GET /cpu
 * the server's CPU time in seconds; GET /sent how many tokens it has sent; GET /health and /v1/models what clients ask first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef int64_t i64;
typedef struct {
    int fd, used, at, out_used, out_cap; /* at: place in the heap, -1 when no stream runs */
    char in[1 << 16], *out;
    i64 id, received, first, next, itl, left, tokens, burst;
} Conn;

static Conn **heap;
static int heaped, heap_cap, epoll_fd;
static char *log_text;
static size_t logged, log_cap;
static i64 sent_chunks, usual_tokens = 2, usual_ttft_us = 5000, usual_itl_us = 10000;

static i64 now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- a heap of streams by the time of their next token --- */

static void put(int i, Conn *c) { heap[i] = c, c->at = i; }

static void settle(int i) {
    Conn *c = heap[i];
    for (int p; i > 0 && heap[p = (i - 1) / 2]->next > c->next; i = p) put(i, heap[p]);
    for (int k; (k = 2 * i + 1) < heaped; i = k) {
        if (k + 1 < heaped && heap[k + 1]->next < heap[k]->next) k++;
        if (heap[k]->next >= c->next) break;
        put(i, heap[k]);
    }
    put(i, c);
}

static void push(Conn *c) {
    if (heaped == heap_cap) heap = realloc(heap, sizeof *heap * (heap_cap = heap_cap ? 2 * heap_cap : 1024));
    put(heaped++, c);
    settle(c->at);
}

static void drop(Conn *c) {
    int i = c->at;
    if (i < 0) return;
    c->at = -1;
    if (i < --heaped) put(i, heap[heaped]), settle(i);
}

/* --- sockets --- */

static void hang_up(Conn *c) {
    drop(c);
    close(c->fd);
    free(c->out);
    free(c);
}

static void watch(Conn *c, int op, unsigned events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(epoll_fd, op, c->fd, &e);
}

static int say(Conn *c, const char *text, int n) { /* -1: the connection is gone */
    if (!c->out_used) {
        ssize_t sent = send(c->fd, text, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return hang_up(c), -1;
        if (sent == n) return 0;
        if (sent > 0) text += sent, n -= sent;
        watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    if (c->out_used + n > c->out_cap) c->out = realloc(c->out, c->out_cap = 2 * (c->out_used + n));
    memcpy(c->out + c->out_used, text, n);
    c->out_used += n;
    return 0;
}

static void flush_out(Conn *c) {
    ssize_t sent = send(c->fd, c->out, c->out_used, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) hang_up(c); /* else epoll would say so for ever */
        return;
    }
    memmove(c->out, c->out + sent, c->out_used -= sent);
    if (!c->out_used) watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

/* --- answers --- */

static int chunk(char *to, const char *event, int n) {
    int head = sprintf(to, "%x\r\n", n);
    memcpy(to + head, event, n);
    memcpy(to + head + n, "\r\n", 2);
    return head + n + 2;
}

static void note(Conn *c, i64 last) {
    if (logged + 100 > log_cap) log_text = realloc(log_text, log_cap = 2 * log_cap + 65536);
    logged += sprintf(log_text + logged, "%lld %lld %lld %lld\n", (long long)c->id, (long long)c->received, (long long)c->first, (long long)last);
}

static void token(Conn *c) {
    char event[600], out[1600];
    i64 t = now_ns();
    int last = --c->left == 0;
    sent_chunks++;
    int n = sprintf(event,
        "data: {\"id\":\"cmpl-%032llx\",\"object\":\"text_completion\",\"created\":1790000000,\"model\":\"bench\",\"choices\":[{\"index\":0,"
        "\"text\":\" token\",\"logprobs\":null,\"finish_reason\":%s,\"stop_reason\":null,\"token_ids\":null}],\"usage\":null,\"t\":\"%019lld\"}\n\n",
        (long long)c->id, last ? "\"length\"" : "null", (long long)t);
    int m = chunk(out, event, n);
    if (!c->first) c->first = t;
    if (!last) {
        c->next += c->itl;
        if (c->burst) c->next = (c->next + c->itl / 2) / c->itl * c->itl;
        settle(c->at);
        say(c, out, m);
        return;
    }
    drop(c);
    note(c, t);
    n = sprintf(event,
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"total_tokens\":%lld,\"completion_tokens\":%lld},"
        "\"system_fingerprint\":\"%lld %lld\"}\n\n",
        (long long)c->tokens + 16, (long long)c->tokens, (long long)c->received, (long long)c->first);
    m += chunk(out + m, event, n);
    m += chunk(out + m, "data: [DONE]\n\n", 14);
    memcpy(out + m, "0\r\n\r\n", 5);
    say(c, out, m + 5);
}

static i64 number(const char *head, const char *name, i64 otherwise) {
    const char *at = strcasestr(head, name);
    return at ? strtoll(at + strlen(name), 0, 10) : otherwise;
}

static int reply(Conn *c, const char *status, const char *type, const char *body, size_t n) {
    char head[160];
    int m = sprintf(head, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", status, type, n);
    return say(c, head, m) || say(c, body, n);
}

static int plain(Conn *c, const char *body, size_t n) { return reply(c, "200 OK", "text/plain", body, n); }

static int tell(Conn *c) { /* answers a GET; -1: the connection is gone */
    static const char models[] = "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"owned_by\":\"bench\",\"root\":\"bench\"}]}";
    if (!strncmp(c->in, "GET /log", 8)) {
        size_t n = logged;
        logged = 0;
        return plain(c, log_text ? log_text : "", n);
    }
    char text[64];
    if (!strncmp(c->in, "GET /sent", 9)) return plain(c, text, sprintf(text, "%lld", (long long)sent_chunks));
    if (!strncmp(c->in, "GET /cpu", 8)) {
        struct rusage r;
        getrusage(RUSAGE_SELF, &r);
        double s = r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
        return plain(c, text, sprintf(text, "%f", s));
    }
    if (!strncmp(c->in, "GET /set?", 9)) {
        usual_tokens = number(c->in, "tokens=", usual_tokens);
        usual_ttft_us = number(c->in, "ttft-us=", usual_ttft_us);
        usual_itl_us = number(c->in, "itl-us=", usual_itl_us);
        return plain(c, "set\n", 4);
    }
    if (!strncmp(c->in, "GET /health", 11)) return plain(c, "", 0);
    if (!strncmp(c->in, "GET /v1/models", 14)) return reply(c, "200 OK", "application/json", models, sizeof models - 1);
    return reply(c, "404 Not Found", "text/plain", "", 0);
}

static int answer(Conn *c) { /* the request's head is a string in c->in; -1: the connection is gone */
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
    if (!strncmp(c->in, "GET ", 4)) return tell(c);
    const char *path = strstr(c->in, "/completions ");
    if (!path || path > strstr(c->in, "\r\n")) return reply(c, "404 Not Found", "text/plain", "", 0);
    c->received = now_ns(), c->first = 0;
    c->id = number(c->in, "\r\nx-id:", 0);
    c->left = c->tokens = number(c->in, "\r\nx-tokens:", usual_tokens);
    c->itl = 1000 * number(c->in, "\r\nx-itl-us:", usual_itl_us);
    c->burst = number(c->in, "\r\nx-burst:", 0);
    c->next = c->received + 1000 * number(c->in, "\r\nx-ttft-us:", usual_ttft_us);
    if (c->burst) c->next = c->next / c->itl * c->itl;
    if (say(c, head, sizeof head - 1)) return -1;
    push(c);
    return 0;
}

static void hear(Conn *c) {
    ssize_t n = recv(c->fd, c->in + c->used, sizeof c->in - 1 - c->used, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) hang_up(c);
        return;
    }
    c->in[c->used += n] = 0;
    char *blank = strstr(c->in, "\r\n\r\n");
    if (!blank || c->at >= 0) return;
    i64 body = number(c->in, "\r\ncontent-length:", 0);
    if (blank + 4 + body > c->in + c->used) return;
    blank[2] = 0;
    c->used = 0;
    answer(c);
}

static void welcome(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = calloc(1, sizeof *c);
        c->fd = fd, c->at = -1;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

int main(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&to, size) || listen(listener, 4096)) return perror("listen"), 1;
    getsockname(listener, (struct sockaddr *)&to, &size);
    printf("%d\n", ntohs(to.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(0);
    Conn on_listener = {.fd = listener}, on_stdin = {.fd = 0};
    watch(&on_listener, EPOLL_CTL_ADD, EPOLLIN);
    watch(&on_stdin, EPOLL_CTL_ADD, EPOLLIN);
    for (;;) {
        struct epoll_event events[256];
        struct timespec wait = {0, 0}, *limit = heaped ? &wait : 0;
        i64 left = heaped ? heap[0]->next - now_ns() : 0;
        if (left > 0) wait.tv_sec = left / 1000000000, wait.tv_nsec = left % 1000000000;
        int n = epoll_pwait2(epoll_fd, events, 256, limit, 0);
        for (int i = 0; i < n; i++) {
            Conn *c = events[i].data.ptr;
            if (c == &on_stdin) return 0;
            if (c == &on_listener) welcome(listener);
            else if (events[i].events & EPOLLOUT) flush_out(c);
            else hear(c);
        }
        for (i64 t = now_ns(); heaped && heap[0]->next <= t;) token(heap[0]);
    }
}
