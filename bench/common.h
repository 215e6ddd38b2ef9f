/* What the mock provider and the load generator share: a clock, a buffer, a socket, an end.
 *
 * Both are single-threaded epoll loops. The clock is CLOCK_MONOTONIC in both, so that a moment
 * which one of them writes down can be compared with a moment of the other.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 1024, MOST_STREAMS = 65536 };

static inline uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline void *must(void *memory)
{
    if (!memory)
        die("memory");
    return memory;
}

/* Bytes that grow at one end and are taken from the other. */
struct buffer {
    char *bytes;
    size_t length, room;
};

static inline char *buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->length + more > buffer->room) {
        buffer->room = (buffer->length + more) * 2;
        buffer->bytes = must(realloc(buffer->bytes, buffer->room));
    }
    return buffer->bytes + buffer->length;
}

static inline void buffer_add(struct buffer *buffer, const void *bytes, size_t count)
{
    memcpy(buffer_reserve(buffer, count), bytes, count);
    buffer->length += count;
}

__attribute__((format(printf, 2, 3))) static inline void buffer_print(struct buffer *buffer, const char *format, ...)
{
    enum { MOST = 4096 };
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(buffer_reserve(buffer, MOST), MOST, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)(count < MOST ? count : MOST - 1);
}

static inline void buffer_take(struct buffer *buffer, size_t count)
{
    buffer->length -= count;
    memmove(buffer->bytes, buffer->bytes + count, buffer->length);
}

static inline void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline void send_at_once(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline void watch(int epoll, int how, int fd, uint32_t events, void *whom)
{
    struct epoll_event event = {.events = events, .data.ptr = whom};
    if (epoll_ctl(epoll, how, fd, &event))
        die("epoll_ctl");
}

static inline int open_fifo(const char *path)
{
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die(path);
    return fd;
}

static volatile sig_atomic_t is_told_to_stop;

static inline void note_signal(int number)
{
    (void)number;
    is_told_to_stop = 1;
}

static inline void stop_on_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, note_signal);
    signal(SIGINT, note_signal);
}

#endif
