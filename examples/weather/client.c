/*
 * The same client in C, with stubs that rpcgen makes of the trait (Debian: rpcsvc-proto, libtirpc-dev):
 *
 *     stoop gen x --from-trait src/weather.rs -o weather.x
 *     rpcgen -N weather.x
 *     cc -I/usr/include/tirpc -I. -o client weather/client.c weather_clnt.c weather_xdr.c -ltirpc
 *     ./client 7402
 */
#include "weather.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int socket = RPC_ANYSOCK;
    address.sin_port = htons(count > 1 ? atoi(arguments[1]) : 7402);
    /* With a server that has registered: clnt_create("127.0.0.1", WEATHER_PROG, WEATHER_VERS, "tcp"). */
    CLIENT *weather = clnttcp_create(&address, WEATHER_PROG, WEATHER_VERS, &socket, 0, 0);
    if (!weather) {
        clnt_pcreateerror("the weather server");
        return 1;
    }
    u_int *known = weather_report_1("tower", (Measurement){18 * 3600, 21.5}, weather);
    Weather_latest_result *latest = weather_latest_1("tower", 1, weather);
    Weather_warmest_result *warmest = weather_warmest_1(weather);
    if (!known || !latest || !warmest) {
        clnt_perror(weather, "a call failed");
        return 1;
    }
    printf("measurement %u of the tower\n", *known);
    for (u_int at = 0; at < latest->Weather_latest_result_len; at++)
        printf("%.1f degrees\n", latest->Weather_latest_result_val[at].celsius);
    if (*warmest)
        printf("the warmest station is %s\n", (*warmest)->name);
    return 0;
}
