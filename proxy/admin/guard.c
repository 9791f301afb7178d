/* Judges requests by their headers. */
#include "proxy/admin/guard.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <strings.h>

#define HOST_MAX 256 /* longer names do not exist */

/* ---- The name. */

/* `[::1]:9117`, `::1` or `name.:80` without port, brackets and the root's dot; false if the text is
 * nothing of that. */
static bool read_name(const char *text, char name[HOST_MAX])
{
	const char *colon = strchr(text, ':');
	const char *end = text + strcspn(text, ":"), *port = end;
	size_t length;

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return false;
		port = end + 1;
	} else if (colon && strchr(colon + 1, ':')) {
		end = port = text + strlen(text); /* IPv6 without brackets has no port */
	}
	if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")] != '\0'))
		return false;
	length = (size_t)(end - text);
	length -= length > 0 && text[length - 1] == '.';
	if (length == 0 || length >= HOST_MAX)
		return false;
	memcpy(name, text, length);
	name[length] = '\0';
	return true;
}

static bool same_name(const char *name, const char *other)
{
	char known[HOST_MAX];
	struct in6_addr one, two;

	if (!read_name(other, known))
		return false;
	return strcasecmp(name, known) == 0 ||
	       (inet_pton(AF_INET6, name, &one) == 1 && inet_pton(AF_INET6, known, &two) == 1 &&
		memcmp(&one, &two, sizeof(one)) == 0);
}

static bool is_own_name(const struct config_admin *config, const char *host)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
	char name[HOST_MAX];

	if (!read_name(host, name))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(loopback); i++)
		if (same_name(name, loopback[i]))
			return true;
	for (char **known = config->hosts; known && *known; known++)
		if (same_name(name, *known))
			return true;
	return same_name(name, config->address);
}

/* ---- The token. */

/* Takes as long whatever the texts are. */
static bool same_secret(struct bytes given, const char *token)
{
	unsigned char one[EVP_MAX_MD_SIZE], other[EVP_MAX_MD_SIZE];
	unsigned length = 0;

	return EVP_Digest(given.data, given.length, one, &length, EVP_sha256(), NULL) == 1 &&
	       EVP_Digest(token, strlen(token), other, &length, EVP_sha256(), NULL) == 1 &&
	       CRYPTO_memcmp(one, other, length) == 0;
}

/* What stands behind the scheme's name; NULL if it is another scheme. */
static const char *of_scheme(const char *authorization, const char *scheme)
{
	size_t length = strlen(scheme);

	if (strncasecmp(authorization, scheme, length) != 0 || authorization[length] != ' ')
		return NULL;
	authorization += length;
	return authorization + strspn(authorization, " ");
}

/* The base64 text of USER:PASSWORD; the user may be anyone. */
static bool is_basic(const char *text, const char *token)
{
	size_t length = strlen(text);
	size_t padding = length - strcspn(text, "=");
	auto_free unsigned char *decoded = must_calloc(length + 1, 1);
	const unsigned char *colon;
	int got;

	if (length == 0 || length > INT32_MAX || padding > 2)
		return false;
	got = EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)length);
	if (got < (int)padding)
		return false;
	got -= (int)padding;
	colon = memchr(decoded, ':', (size_t)got);
	return colon &&
	       same_secret((struct bytes){colon + 1, (size_t)(decoded + got - colon - 1)}, token);
}

static bool has_token(const struct guard *guard, const char *authorization)
{
	const char *bearer, *basic;

	if (!guard->token || !authorization)
		return false;
	bearer = of_scheme(authorization, "Bearer");
	basic = of_scheme(authorization, "Basic");
	return (bearer && same_secret(bytes_of(bearer), guard->token)) ||
	       (basic && is_basic(basic, guard->token));
}

/* ---- The site. */

static bool is(const char *text, const char *other)
{
	return text && strcmp(text, other) == 0;
}

/* Another site may lead people to the status page, not load it or a part of it. Browsers say what
 * they are at (Fetch Metadata Request Headers); other programs say nothing. */
static bool is_of_other_site(const struct guard_request *request)
{
	if (!request->fetch_site || is(request->fetch_site, "same-origin") ||
	    is(request->fetch_site, "none"))
		return false;
	return !is(request->path, "/") || !is(request->fetch_mode, "navigate") ||
	       !is(request->fetch_dest, "document");
}

/* Whoever has the token is no stranger's page, so the name says nothing more. */
enum guard_verdict guard_judge(const struct guard *guard, const struct guard_request *request)
{
	if (is_of_other_site(request))
		return GUARD_OTHER_SITE;
	if (has_token(guard, request->authorization))
		return GUARD_PASSES;
	if (!request->host || request->hosts || !is_own_name(guard->config, request->host))
		return GUARD_OTHER_HOST;
	return guard->token ? GUARD_NO_TOKEN : GUARD_PASSES;
}
