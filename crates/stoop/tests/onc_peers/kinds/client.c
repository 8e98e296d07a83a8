/* Calls every procedure of kinds.x, and checks the results: client udp|tcp PORT, or client unix PATH. */
#include "sample.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);              \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static CLIENT *client(char **arguments, int version) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    int socket = RPC_ANYSOCK;
    if (!strcmp(arguments[1], "unix")) {
        strcpy(path.sun_path, arguments[2]);
        return clntunix_create(&path, KINDS, version, &socket, 0, 0);
    }
    address.sin_port = htons(atoi(arguments[2]));
    if (!strcmp(arguments[1], "tcp"))
        return clnttcp_create(&address, KINDS, version, &socket, 0, 0);
    return clntudp_create(&address, KINDS, version, (struct timeval){5, 0}, &socket);
}

static void check_list(CLIENT *one) {
    nodes *turned = turn_1(sample(9)->list, one);
    CHECK(turned);
    node *list = *turned;
    for (int at = 8; at >= 0; at--, list = list->next) {
        char name[LABEL_MAX + 1];
        snprintf(name, sizeof name, "node %d", at);
        CHECK(list && !strcmp(list->name, name) && list->weight == at * 0.5f);
    }
    CHECK(!list);
    CHECK((turned = turn_1(NULL, one)) && !*turned);
}

static void check_blob(CLIENT *one, u_int len) {
    char *bytes = malloc(len + 1);
    for (u_int at = 0; at < len; at++)
        bytes[at] = (char)(at * 7);
    blob *result = reverse_1((blob){len, bytes}, one);
    CHECK(result && result->blob_len == len);
    for (u_int at = 0; at < len; at++)
        CHECK(result->blob_val[len - 1 - at] == bytes[at]);
}

static void check_first_version(CLIENT *one) {
    struct timeval time = {25, 0};
    CHECK(clnt_call(one, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, time) == RPC_SUCCESS);
    for (int number = 0; number < 13; number++) {
        everything *next = next_1(number, *sample(number), one);
        CHECK(next && is_same(next, sample(number + 1)));
    }
    int *sum = sum_1(-5, (point){7, 100}, (numbers){3, (int[]){1, 2, 3}}, one);
    CHECK(sum && *sum == 108);
    char **joined = join_1("left and ", "right", one);
    CHECK(joined && !strcmp(*joined, "left and right"));
    check_list(one);
    reading *read = read_1(5, one);
    CHECK(read && read->code == 1 && !strcmp(read->reading_u.reason, "because 5"));
    CHECK((read = read_1(8, one)) && read->code == 0 && read->reading_u.value == 4.0);
    for (u_int len = 0; len < 8000; len += 999)
        check_blob(one, len);
    answer *kept = kept_1(one);
    CHECK(kept && !kept->found);
    CHECK(keep_1("a name", one));
    CHECK((kept = kept_1(one)) && kept->found && !strcmp(kept->answer_u.name, "a name"));
}

int main(int count, char **arguments) {
    CLIENT *one = client(arguments, KINDS_1), *two = client(arguments, KINDS_2);
    CHECK(one && two);
    check_first_version(one);
    quad_t *sum = total_2((numbers){2, (int[]){2000000000, 2000000000}}, two);
    CHECK(sum && *sum == 4000000000);
    colour *mixed = mix_2(RED, GREEN, two);
    CHECK(mixed && *mixed == BLUE);
    CHECK((mixed = mix_2(RED, RED, two)) && *mixed == RED);
    return 0;
}
