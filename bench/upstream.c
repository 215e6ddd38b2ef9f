/* The mock provider: chat completions on the wire of whichever provider is asked, without a model.
 *
 *     upstream PORT [--acks FIFO] [--closes FILE]
 *
 * One process serves a whole benchmark, because every request says in its path which wire it is
 * (see wire.h), and in its prompt how it wants to be answered:
 *
 *     pace:chunks=200,first=0,gap=20000,lockstep=0.
 *
 * so many chunks of text, the first so many microseconds after the request and the others so far
 * apart. Each text is " TIME.STREAM": when it was sent (CLOCK_MONOTONIC, in microseconds) and a
 * number that no other stream has. With lockstep=1 a chunk is sent only when the load generator
 * has written that number into the FIFO, to say that it holds the chunk before: one chunk in
 * flight per stream, so that nothing on the way can put two of them together.
 *
 * Where the peer leaves before its stream is over, "STREAM TIME" is written to the file of closes.
 */
#define _GNU_SOURCE
#include "schedule.h"
#include "wire.h"

struct pace {
    uint64_t first_us, gap_us;
    bool is_lockstep;
};

/* One connection, and the answer that is under way on it. */
struct peer {
    struct timed timed; /* the first member: what the schedule holds is the peer */
    int fd;
    bool is_gone;
    struct buffer input, output;
    bool waits_to_write;

    bool is_streaming;
    struct answer answer;
    struct pace pace;
    struct peer *next_gone;
};

static int epoll_fd, acks_fd = -1, closes_fd = -1;
static uint64_t last_stream;
static struct schedule schedule;
static struct peer *peer_of_stream[MOST_STREAMS]; /* by number, modulo */
static struct peer *gone;                         /* freed when no event can point at them any more */
static char acks_mark;

/* ---- Connections */

static void drop(struct peer *peer)
{
    if (peer->is_gone)
        return;
    if (peer->is_streaming && closes_fd >= 0)
        dprintf(closes_fd, "%llu %llu\n", (unsigned long long)peer->answer.stream, (unsigned long long)now_us());
    peer->is_gone = true;
    schedule_remove(&schedule, &peer->timed);
    if (peer_of_stream[peer->answer.stream % MOST_STREAMS] == peer)
        peer_of_stream[peer->answer.stream % MOST_STREAMS] = NULL;
    close(peer->fd);
    peer->next_gone = gone;
    gone = peer;
}

static void free_the_gone(void)
{
    while (gone) {
        struct peer *peer = gone;
        gone = peer->next_gone;
        buffer_free(&peer->input);
        buffer_free(&peer->output);
        free(peer);
    }
}

/* Gives the kernel what it takes, and asks to be told when it takes more. */
static void flush(struct peer *peer)
{
    while (peer->output.length) {
        ssize_t count = send(peer->fd, peer->output.bytes, peer->output.length, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN) {
            drop(peer);
            return;
        }
        if (count < 0)
            break;
        buffer_take(&peer->output, (size_t)count);
    }
    bool must_wait = peer->output.length > 0;
    if (must_wait != peer->waits_to_write)
        watch(epoll_fd, EPOLL_CTL_MOD, peer->fd, EPOLLIN | (must_wait ? EPOLLOUT : 0), peer);
    peer->waits_to_write = must_wait;
}

/* ---- Answers */

/* Sends the next piece of a stream, and sees to the one after it. The finish, the usage and the end
 * go together: they are not what is measured. */
static void step(struct peer *peer)
{
    struct answer *answer = &peer->answer;
    if (answer->sent == 0)
        answer->wire->start(&peer->output, answer);
    if (answer->sent < answer->chunks) {
        char text[64];
        answer->sent++;
        snprintf(text, sizeof text, " %llu.%llu", (unsigned long long)now_us(), (unsigned long long)answer->stream);
        answer->wire->text(&peer->output, answer, text);
        if (!peer->pace.is_lockstep)
            schedule_add(&schedule, &peer->timed, peer->timed.due + peer->pace.gap_us);
    } else {
        answer->wire->end(&peer->output, answer);
        buffer_add(&peer->output, "0\r\n\r\n", 5);
        peer->is_streaming = false;
    }
    flush(peer);
}

static void send_json(struct peer *peer, const char *status, const struct buffer *body)
{
    buffer_print(&peer->output, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
                 body->length);
    buffer_add(&peer->output, body->bytes, body->length);
    flush(peer);
}

static void answer_whole(struct peer *peer)
{
    struct buffer body = {0};
    if (peer->answer.wire->has_whole_answer)
        write_whole(&body, &peer->answer);
    else
        buffer_print(&body, "{\"error\":{\"message\":\"the mock only streams here\"}}");
    send_json(peer, peer->answer.wire->has_whole_answer ? "200 OK" : "400 Bad Request", &body);
    buffer_free(&body);
}

/* ---- Requests */

static bool has_true(const char *body, size_t length, const char *member)
{
    const char *end = body + length, *at = memmem(body, length, member, strlen(member));
    if (!at)
        return false;
    for (at += strlen(member); at < end && (*at == ' ' || *at == ':'); at++)
        ;
    return end - at >= 4 && !memcmp(at, "true", 4);
}

/* What the prompt asks for. Without it: so many chunks, at once. */
static struct pace pace_of(const char *body, size_t length, int *chunks)
{
    struct pace pace = {0};
    const char *end = body + length, *at = memmem(body, length, "pace:", 5);
    unsigned long long first, gap;
    int lockstep;
    *chunks = 20;
    if (at && memchr(at, '.', (size_t)(end - at)) &&
        sscanf(at, "pace:chunks=%d,first=%llu,gap=%llu,lockstep=%d.", chunks, &first, &gap, &lockstep) == 4)
        pace = (struct pace){.first_us = first, .gap_us = gap, .is_lockstep = lockstep};
    return pace;
}

static void start_stream(struct peer *peer, const char *body, size_t length)
{
    peer->pace = pace_of(body, length, &peer->answer.chunks);
    peer->answer.wants_usage = has_true(body, length, "\"include_usage\"");
    peer->is_streaming = true;
    peer_of_stream[peer->answer.stream % MOST_STREAMS] = peer;
    const char *media = peer->answer.wire->media;
    buffer_print(&peer->output,
                 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
                 "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n"
                 "X-Request-Id: req_mock0123456789\r\nOpenai-Processing-Ms: 12\r\n\r\n",
                 media ? media : "text/event-stream; charset=utf-8");
    schedule_add(&schedule, &peer->timed, now_us() + peer->pace.first_us);
}

static void answer(struct peer *peer, const char *line, size_t line_length, const char *body, size_t length)
{
    const struct wire *wire = wire_of(line, line_length);
    peer->answer = (struct answer){.wire = wire, .stream = ++last_stream};
    if (wire->streams_by_path || has_true(body, length, "\"stream\""))
        start_stream(peer, body, length);
    else
        answer_whole(peer);
}

static const char *field(const char *head, size_t length, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = head, *end = head + length; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        if ((size_t)(end - at) > size + 1 && !strncasecmp(at + 1, name, size))
            return at + 1 + size;
    return NULL;
}

/* Puts the chunks that start at `from` together in `body`. Returns where they end, or 0 if that is yet to come. */
static size_t join_chunks(const struct buffer *input, size_t from, struct buffer *body)
{
    for (;;) {
        char *line_end = memmem(input->bytes + from, input->length - from, "\r\n", 2);
        if (!line_end)
            return 0;
        size_t size = strtoul(input->bytes + from, NULL, 16);
        size_t start = (size_t)(line_end - input->bytes) + 2;
        if (input->length < start + size + 2)
            return 0;
        if (size == 0)
            return start + 2;
        buffer_add(body, input->bytes + start, size);
        from = start + size + 2;
    }
}

/* Answers the first request of the input, if it is whole. */
static bool take_request(struct peer *peer)
{
    struct buffer *input = &peer->input, joined = {0};
    char *end = input->length ? memmem(input->bytes, input->length, "\r\n\r\n", 4) : NULL;
    if (!end)
        return false;
    size_t head = (size_t)(end - input->bytes) + 4, whole = head;
    const char *length = field(input->bytes, head, "content-length:"), *body = input->bytes + head;
    size_t body_length = length ? strtoul(length, NULL, 10) : 0;
    if (length) {
        whole = head + body_length;
    } else if (field(input->bytes, head, "transfer-encoding:")) {
        whole = join_chunks(input, head, &joined);
        body = joined.bytes;
        body_length = joined.length;
    }
    bool is_whole = whole && input->length >= whole;
    if (is_whole) {
        size_t line = (size_t)((char *)memchr(input->bytes, '\n', head) - input->bytes);
        answer(peer, input->bytes, line, body, body_length);
        buffer_take(input, whole);
    }
    buffer_free(&joined);
    return is_whole;
}

static void take_input(struct peer *peer)
{
    enum { PIECE = 65536 };
    ssize_t count = recv(peer->fd, buffer_reserve(&peer->input, PIECE), PIECE, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
        drop(peer);
        return;
    }
    if (count > 0)
        peer->input.length += (size_t)count;
    while (!peer->is_gone && !peer->is_streaming && take_request(peer))
        ;
}

/* ---- The loop */

static void accept_peers(int listener)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        send_at_once(fd);
        struct peer *peer = must(calloc(1, sizeof *peer));
        peer->fd = fd;
        peer->timed.place = -1;
        watch(epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, peer);
    }
}

static void take_acks(void)
{
    uint64_t streams[512];
    for (ssize_t count; (count = read(acks_fd, streams, sizeof streams)) > 0;) {
        for (size_t index = 0; index < (size_t)count / sizeof *streams; index++) {
            struct peer *peer = peer_of_stream[streams[index] % MOST_STREAMS];
            if (peer && peer->answer.stream == streams[index] && peer->is_streaming)
                step(peer);
        }
    }
}

static int wait_for_events(struct epoll_event *events)
{
    struct timespec wait = {.tv_sec = 1};
    if (schedule.length) {
        uint64_t now = now_us(), due = schedule.heap[0]->due, left = due > now ? due - now : 0;
        if (left < 1000000)
            wait = (struct timespec){.tv_nsec = (long)left * 1000};
    }
    return epoll_pwait2(epoll_fd, events, EVENTS_AT_ONCE, &wait, NULL);
}

static void serve(int listener)
{
    static struct epoll_event events[EVENTS_AT_ONCE];
    while (!is_told_to_stop) {
        int count = wait_for_events(events);
        for (int index = 0; index < count; index++) {
            struct peer *peer = events[index].data.ptr;
            if (!peer) {
                accept_peers(listener);
            } else if ((void *)peer == &acks_mark) {
                take_acks();
            } else {
                if (!peer->is_gone && events[index].events & EPOLLOUT)
                    flush(peer);
                if (!peer->is_gone && events[index].events & ~(uint32_t)EPOLLOUT)
                    take_input(peer);
            }
        }
        uint64_t now = now_us();
        for (struct peer *peer; (peer = (struct peer *)schedule_take(&schedule, now));) {
            if (peer->waits_to_write)
                schedule_add(&schedule, &peer->timed, now + 1000);
            else
                step(peer);
        }
        free_the_gone();
    }
}

int main(int count, char **words)
{
    if (count < 2)
        return fprintf(stderr, "upstream PORT [--acks FIFO] [--closes FILE]\n"), 2;
    for (int index = 2; index + 1 < count; index += 2) {
        if (!strcmp(words[index], "--acks"))
            acks_fd = open_fifo(words[index + 1]);
        else if (!strcmp(words[index], "--closes"))
            closes_fd = open(words[index + 1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    stop_on_signals();
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = loopback(atoi(words[1]));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8192))
        die("listen");
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll_fd, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    if (acks_fd >= 0)
        watch(epoll_fd, EPOLL_CTL_ADD, acks_fd, EPOLLIN, &acks_mark);
    serve(listener);
    return 0;
}
