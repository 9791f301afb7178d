/* Tells the service manager how `serve` is: sd_notify(3) without its library. A message is a
 * datagram of lines to the socket that $NOTIFY_SOCKET names. Without that variable nothing is sent.
 */
#pragma once

#include "protocol/base.h"

#include <stdint.h>

/* Before the sandbox, which may close the way to the socket. */
void notify_open(void);
void notify_close(void);
/* Says in the log why messages cannot be sent, if they cannot. */
void notify_complain(void);
/* How often the manager wants WATCHDOG=1 at the latest; 0: not at all. */
int64_t notify_watchdog_ms(void);

/* The lines of one message. A message that is not taken within some seconds is dropped. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));
