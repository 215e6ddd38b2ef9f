/* See caller.h. */
#define _GNU_SOURCE
#include "caller.h"

struct wish wish = {.path = "/v1/chat/completions", .key = "", .model = "gpt-4o-mini", .pace = "", .max_tokens = 4096};
struct sight sight;

/* ---- The request */

void write_request(void)
{
    static const char SYSTEM[] = "You are a helpful assistant. Answer in a concise manner and cite your sources.";
    static const char PROMPT[] =
        "I am planning a trip across three countries in late spring and would like to know which rail passes make "
        "sense, how early the seats should be reserved, and whether night trains are a sensible choice for a family "
        "of four with two small children. Please compare the costs with short flights, list the practical drawbacks "
        "of each option, and propose an itinerary of ten days with no more than four hours of travel a day. We like "
        "museums, quiet parks, food markets and the sea; we do not like long queues or very early starts.";
    struct buffer body = {0};
    buffer_print(&body, "{\"model\":\"%s\",", wish.model);
    if (!wish.is_buffered)
        buffer_print(&body, "\"stream\":true,\"stream_options\":{\"include_usage\":true},");
    bool is_response = strstr(wish.path, "/responses") != NULL;
    buffer_print(&body,
                 "\"temperature\":0.7,\"%s\":%ld,\"%s\":[{\"role\":\"system\",\"content\":\"%s\"},"
                 "{\"role\":\"user\",\"content\":\"pace:%s. %s\"}],\"user\":\"user-1234\"}",
                 is_response ? "max_output_tokens" : "max_tokens", wish.max_tokens, is_response ? "input" : "messages",
                 SYSTEM, wish.pace, PROMPT);
    buffer_print(&wish.request,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load\r\nAccept: */*\r\n"
                 "Content-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
                 wish.path, wish.port, wish.key, body.length);
    buffer_add(&wish.request, body.bytes, body.length);
    buffer_free(&body);
}

/* ---- One request after the other */

void caller_hang_up(struct caller *caller)
{
    if (caller->fd >= 0)
        close(caller->fd);
    caller->fd = -1;
    caller->state = IDLE;
}

static void fail(struct caller *caller, const char *why, const char *detail, size_t length)
{
    if (!sight.failures++) {
        char *text = sight.failure;
        snprintf(text, sizeof sight.failure, "%s %.*s", why, (int)(length < 200 ? length : 200), detail);
        for (char *at = text; *at; at++)
            if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
                *at = '\'';
    }
    caller_hang_up(caller);
    sight.finished++;
    caller->start_at = now_us() + 20000;
}

static void send_request(struct caller *caller)
{
    while (caller->request_sent < wish.request.length) {
        ssize_t count = send(caller->fd, wish.request.bytes + caller->request_sent,
                             wish.request.length - caller->request_sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) {
            watch(epoll_fd, EPOLL_CTL_MOD, caller->fd, EPOLLOUT, caller);
            return;
        }
        if (count < 0) {
            fail(caller, "sending:", strerror(errno), 40);
            return;
        }
        caller->request_sent += (size_t)count;
    }
    caller->state = READING_HEAD;
    watch(epoll_fd, EPOLL_CTL_MOD, caller->fd, EPOLLIN, caller);
}

static void connect_caller(struct caller *caller)
{
    sight.connected++;
    caller->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (caller->fd < 0)
        die("socket");
    send_at_once(caller->fd);
    struct sockaddr_in address = loopback(wish.port);
    if (connect(caller->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        die("connect");
    caller->state = CONNECTING;
    watch(epoll_fd, EPOLL_CTL_ADD, caller->fd, EPOLLOUT, caller);
}

void caller_start(struct caller *caller)
{
    sight.started++;
    caller->start_at = 0;
    caller->request_sent = 0;
    caller->head.length = caller->line.length = 0;
    caller->last_frame = caller->stream = 0;
    caller->texts = 0;
    caller->is_done = caller->is_refused = false;
    caller->began = now_us();
    if (caller->fd < 0) {
        connect_caller(caller);
    } else {
        caller->state = SENDING;
        send_request(caller);
    }
}

static void complete(struct caller *caller)
{
    uint64_t now = now_us();
    if (caller->began >= sight.counts_from)
        samples_add(caller->is_refused ? &sight.refusals : &sight.durations, now - caller->began);
    if (!caller->is_refused && now >= sight.counts_from && (!sight.counts_until || now <= sight.counts_until))
        sight.completed++;
    if (!caller->is_refused && !wish.is_buffered && (!caller->is_done || caller->texts != wish.expected_texts)) {
        char seen[80];
        const char *end = caller->is_done ? "" : ", no end";
        int length = snprintf(seen, sizeof seen, "%d chunks of text%s", caller->texts, end);
        fail(caller, "not whole:", seen, (size_t)length);
        return;
    }
    sight.finished++;
    bool leaves = wish.anew_percent && sight.finished * wish.anew_percent % 100 < wish.anew_percent;
    if (caller->body.must_close || leaves || !may_start())
        caller_hang_up(caller);
    caller->state = IDLE;
    if (wish.is_told_when)
        return;
    if (caller->is_refused)
        caller->start_at = now + 100000;
    else if (wish.pause_us)
        caller->start_at = now_us() + wish.pause_us;
    else if (may_start())
        caller_start(caller);
}

/* ---- Reading an answer */

/* The mock's text is " TIME.STREAM": how long it was on its way, and whom to thank for it. */
static void take_text(struct caller *caller, const char *text, uint64_t now)
{
    char *rest;
    uint64_t sent = strtoull(text, &rest, 10);
    if (*rest != '.' || sent > now)
        return;
    samples_add(&sight.transits, now - sent);
    caller->stream = strtoull(rest + 1, NULL, 10);
    buffer_add(&sight.acks, &caller->stream, sizeof caller->stream);
}

/* What the texts of an answer stand behind, and what its end has within its first bytes. */
struct words {
    const char *content, *end;
    size_t within;
};

static const struct words *words_of(const char *path)
{
    static const struct words CHAT = {"\"content\":", "[DONE]", 16}, MESSAGES = {"\"text\":", "\"message_stop\"", 40},
                              RESPONSES = {"\"delta\":", "\"response.completed\"", 60};
    if (strstr(path, "/responses"))
        return &RESPONSES;
    return strstr(path, "/messages") ? &MESSAGES : &CHAT;
}

static void take_line(struct caller *caller, const char *line, size_t length, uint64_t now)
{
    const struct words *words = words_of(wish.path);
    if (length < 6 || memcmp(line, "data:", 5))
        return;
    if (memmem(line, length < words->within ? length : words->within, words->end, strlen(words->end))) {
        caller->is_done = true;
        return;
    }
    sight.frames++;
    const char *text = memmem(line, length, words->content, strlen(words->content));
    if (text) {
        text += strlen(words->content);
        text += *text == ' ';
        if (text[0] == '"' && text[1] != '"') {
            if (!caller->texts++ && caller->began >= sight.counts_from)
                samples_add(&sight.first_texts, now - caller->began);
            sight.texts++;
            take_text(caller, text + 1, now);
        }
    }
    if (caller->last_frame)
        samples_add(&sight.gaps, now - caller->last_frame);
    caller->last_frame = now;
}

static void take_body(void *whom, const char *bytes, size_t count)
{
    struct caller *caller = whom;
    if (wish.is_buffered || caller->is_refused)
        return;
    uint64_t now = now_us();
    for (const char *end = bytes + count, *newline; bytes < end; bytes = newline + 1) {
        newline = memchr(bytes, '\n', (size_t)(end - bytes));
        buffer_add(&caller->line, bytes, (size_t)((newline ? newline : end) - bytes));
        if (!newline)
            return;
        buffer_add(&caller->line, "", 1);
        take_line(caller, caller->line.bytes, caller->line.length - 1, now);
        caller->line.length = 0;
    }
}

/* Takes the head's bytes off the front of what came. False: it is not whole yet, or not the one that we want. */
static bool take_head(struct caller *caller, const char **bytes, size_t *count)
{
    size_t before = caller->head.length;
    buffer_add(&caller->head, *bytes, *count);
    char *end = memmem(caller->head.bytes, caller->head.length, "\r\n\r\n", 4);
    if (!end)
        return false;
    caller->head.length = (size_t)(end - caller->head.bytes) + 4;
    *bytes += caller->head.length - before;
    *count -= caller->head.length - before;
    caller->is_refused = wish.may_be_refused && caller->head.length >= 16 && !memcmp(caller->head.bytes + 8, " 503", 4);
    if (!caller->is_refused && (caller->head.length < 16 || memcmp(caller->head.bytes + 8, " 200", 4))) {
        fail(caller, caller->head.length < 16 ? "not HTTP:" : "not 200:", *bytes, *count);
        return false;
    }
    buffer_add(&caller->head, "", 1);
    caller->body = body_of(caller->head.bytes);
    caller->state = READING_BODY;
    return true;
}

static void read_answer(struct caller *caller)
{
    static char piece[1 << 18];
    ssize_t received = recv(caller->fd, piece, sizeof piece, 0);
    if (received < 0 && errno == EAGAIN)
        return;
    if (received <= 0) {
        fail(caller, "closed:", received ? strerror(errno) : "", received ? 40 : 0);
        return;
    }
    sight.reads++;
    const char *bytes = piece;
    size_t count = (size_t)received;
    if (caller->state == READING_HEAD && !take_head(caller, &bytes, &count))
        return;
    if (body_take(&caller->body, bytes, count, take_body, caller))
        complete(caller);
}

void caller_event(struct caller *caller)
{
    if (caller->state == CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(caller->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            fail(caller, "connecting:", strerror(error), 40);
            return;
        }
        caller->state = SENDING;
    }
    if (caller->state == SENDING)
        send_request(caller);
    else if (caller->state >= READING_HEAD)
        read_answer(caller);
    else
        caller_hang_up(caller); /* closed between two requests */
}
