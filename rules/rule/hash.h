/* A fast keyed hash of short names. The key makes collisions hard to choose for who doesn't know
 * it. */
#pragma once

#include "protocol/bytes.h"

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_load(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

static inline uint64_t hash_bytes(struct bytes bytes, uint64_t key)
{
	const uint64_t salt = 0x9e3779b97f4a7c15; /* any odd number with its bits well spread */
	const uint8_t *at = bytes.data;
	size_t left = bytes.length;
	uint64_t hash = key ^ (left * salt), head = 0, tail = 0;

	for (; left > 16; at += 16, left -= 16)
		hash = hash_fold(hash_load(at, 8) ^ salt, hash_load(at + 8, 8) ^ hash);
	/* Two loads that may overlap cover what is left. */
	if (left >= 8) {
		head = hash_load(at, 8);
		tail = hash_load(at + left - 8, 8);
	} else if (left >= 4) {
		head = hash_load(at, 4);
		tail = hash_load(at + left - 4, 4);
	} else if (left > 0) {
		head = (uint64_t)at[0] | (uint64_t)at[left / 2] << 8 | (uint64_t)at[left - 1] << 16;
	}
	return hash_fold(head ^ salt, tail ^ hash);
}
