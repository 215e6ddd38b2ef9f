/* See amazon.h. */
#include "amazon.h"

enum { PRELUDE = 12, CHECKSUM = 4, MOST = 8192 };

static uint32_t checksum(const unsigned char *bytes, size_t length)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++)
                value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
            table[byte] = value;
        }
    uint32_t sum = 0xffffffff;
    for (size_t at = 0; at < length; at++)
        sum = sum >> 8 ^ table[(sum ^ bytes[at]) & 0xff];
    return sum ^ 0xffffffff;
}

static unsigned char *put_number(unsigned char *at, uint32_t value, int size)
{
    for (int byte = size - 1; byte >= 0; byte--)
        *at++ = (unsigned char)(value >> 8 * byte);
    return at;
}

static unsigned char *put_header(unsigned char *at, const char *name, const char *value)
{
    size_t name_length = strlen(name), value_length = strlen(value);
    *at++ = (unsigned char)name_length;
    memcpy(at, name, name_length);
    at += name_length;
    *at++ = 7; /* text */
    at = put_number(at, (uint32_t)value_length, 2);
    memcpy(at, value, value_length);
    return at + value_length;
}

void amazon_add(struct buffer *output, const char *type, const char *payload, size_t length)
{
    unsigned char frame[MOST], *at = frame + PRELUDE;
    if (length > MOST / 2)
        die("a payload that is too long");
    at = put_header(at, ":event-type", type);
    at = put_header(at, ":content-type", "application/json");
    at = put_header(at, ":message-type", "event");
    size_t headers = (size_t)(at - frame) - PRELUDE;
    memcpy(at, payload, length);
    at += length;
    put_number(frame, (uint32_t)(at - frame) + CHECKSUM, 4);
    put_number(frame + 4, (uint32_t)headers, 4);
    put_number(frame + 8, checksum(frame, 8), 4);
    at = put_number(at, checksum(frame, (size_t)(at - frame)), 4);
    buffer_print(output, "%x\r\n", (unsigned)(at - frame));
    buffer_add(output, frame, (size_t)(at - frame));
    buffer_add(output, "\r\n", 2);
}

void amazon_add_chunk(struct buffer *output, const char *document, size_t length)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char payload[MOST / 2], *at = payload;
    if (length > MOST / 4)
        die("a document that is too long");
    at += sprintf(at, "{\"bytes\":\"");
    for (size_t place = 0; place < length; place += 3) {
        uint32_t three = 0;
        for (size_t next = 0; next < 3; next++)
            three = three << 8 | (place + next < length ? (unsigned char)document[place + next] : 0);
        for (size_t next = 0; next < 4; next++)
            *at++ = place + next > length ? '=' : LETTERS[three >> (18 - 6 * next) & 63];
    }
    at += sprintf(at, "\",\"p\":\"abcdefghijklmnopqrst\"}");
    amazon_add(output, "chunk", payload, (size_t)(at - payload));
}
