#include "sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 16

static char *text(const char *prefix, int number) {
    char buffer[LABEL_MAX + 1];
    snprintf(buffer, sizeof buffer, "%s %d", prefix, number);
    return strdup(buffer);
}

static shape form(int number) {
    shape form = {.hue = (colour[]){RED, GREEN, BLUE}[number % 3]};
    if (form.hue == RED) {
        form.shape_u.dot = (point){number, 1};
    } else if (form.hue == GREEN) {
        form.shape_u.line[0] = (point){number, 2};
        form.shape_u.line[1] = (point){3, -number};
    }
    return form;
}

static reading got(int number) {
    reading got = {.code = number % 4};
    if (got.code == 0)
        got.reading_u.value = number / 2.0;
    else if (got.code <= 2)
        got.reading_u.reason = text("because", number);
    else
        got.reading_u.raw = number;
    return got;
}

static void scalars(everything *value, int number) {
    value->yes = number % 2;
    value->small = number - 3;
    value->s = -300 * number;
    value->us = 60000 + number;
    value->i = -70000 * number;
    value->ui = 4000000000u + number;
    value->h = -5000000000ll * number;
    value->uh = 18000000000000000000ull + number;
    value->f = number * 0.25f;
    value->d = -number * 1.5e100;
    value->hue = form(number).hue;
}

static void bytes(everything *value, int number) {
    for (int at = 0; at < 6; at++)
        value->id[at] = (char)(number + 40 * at);
    memcpy(value->tag, (char[]){1, number, (char)255}, 3);
    value->bytes.bytes_len = 3 * number;
    value->bytes.bytes_val = calloc(3 * MAX, 1);
    for (int at = 0; at < 3 * number; at++)
        value->bytes.bytes_val[at] = (char)(at * number);
    value->text = text("some text", number);
    value->name = text("label", number);
}

static void arrays(everything *value, int number) {
    value->few.few_len = number % 5;
    value->few.few_val = calloc(MAX, sizeof(int));
    value->path.path_len = number;
    value->path.path_val = calloc(MAX, sizeof(point));
    value->names.names_len = number % 6;
    value->names.names_val = calloc(MAX, sizeof(label));
    for (int at = 0; at < MAX; at++) {
        value->few.few_val[at] = at - number;
        value->path.path_val[at] = (point){at, -at};
        value->names.names_val[at] = text("name", at);
    }
    for (int at = 0; at < CORNERS; at++)
        value->corners[at] = (point){at * number, at - number};
}

static void pointers(everything *value, int number) {
    static point there;
    static tree leaf, left, right;
    there = (point){number, -number};
    value->maybe = number % 2 ? NULL : &there;
    value->nothing = NULL;
    leaf.value = number;
    left.value = -1;
    right = (tree){1, &leaf, NULL};
    value->root = (tree){number, &left, &right};
    node *list = calloc(MAX, sizeof(node));
    for (int at = 0; at < number; at++)
        list[at] = (node){text("node", at), at * 0.5f, at + 1 < number ? &list[at + 1] : NULL};
    value->list = number ? list : NULL;
}

everything *sample(int number) {
    static everything value;
    memset(&value, 0, sizeof value);
    scalars(&value, number);
    bytes(&value, number);
    arrays(&value, number);
    pointers(&value, number);
    value.form = form(number);
    value.got = got(number);
    value.found.found = number % 2;
    value.found.answer_u.name = "found";
    return &value;
}

static u_int encode(everything *value, char *to, u_int size) {
    XDR xdr;
    xdrmem_create(&xdr, to, size, XDR_ENCODE);
    return xdr_everything(&xdr, value) ? xdr_getpos(&xdr) : 0;
}

int is_same(everything *left, everything *right) {
    static char left_bytes[1 << 16], right_bytes[1 << 16];
    u_int len = encode(left, left_bytes, sizeof left_bytes);
    return len && len == encode(right, right_bytes, sizeof right_bytes) && !memcmp(left_bytes, right_bytes, len);
}
