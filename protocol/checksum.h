/* CRC-32C of OP_MSG (reflected polynomial 0x82F63B78), over a whole frame less its last four bytes.
 */
#pragma once

#include "protocol/bytes.h"

uint32_t checksum_crc32c(struct bytes bytes);
/* True where the frame carries no checksum, or the right one. `frame` is a whole OP_MSG frame. */
must_check bool checksum_matches(struct bytes frame);
