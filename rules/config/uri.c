/* Looks at a MongoDB connection string: what is secret in it, and what is wrong with it. */
#include "rules/config/uri.h"

#include "rules/rule/text.h"

#include <strings.h>

static const char mask[] = "***";
static const char *const secret_options[] = {"tlsCertificateKeyFilePassword",
					     "sslClientCertificateKeyPassword",
					     "authMechanismProperties", "proxyPassword"};

/* Up to where a user and a password reach: the last '@' of the authority, or NULL. */
static const char *credentials_end(const char *authority)
{
	const char *end = authority + strcspn(authority, "/?");
	const char *at = end;

	while (at > authority && *at != '@')
		at--;
	return *at == '@' ? at : NULL;
}

static bool is_secret_option(const char *option, size_t length)
{
	for (size_t i = 0; i < ARRAY_LENGTH(secret_options); i++) {
		if (length == strlen(secret_options[i]) &&
		    strncasecmp(option, secret_options[i], length) == 0)
			return true;
	}
	return false;
}

static void mask_options(struct buffer *out, const char *options)
{
	while (*options) {
		size_t name = strcspn(options, "=&;");
		size_t whole = strcspn(options, "&;");

		if (options[name] == '=' && is_secret_option(options, name))
			text_append(out, "%.*s=%s", (int)name, options, mask);
		else
			text_append(out, "%.*s", (int)whole, options);
		options += whole;
		if (*options)
			text_append(out, "%c", *options++);
	}
}

char *uri_masked(const char *uri)
{
	auto_buffer struct buffer out = {0};
	const char *scheme = strstr(uri, "://");
	const char *authority = scheme ? scheme + 3 : uri;
	const char *end = credentials_end(authority);
	const char *colon = end ? memchr(authority, ':', (size_t)(end - authority)) : NULL;
	const char *rest = end ? end : authority;
	size_t options;

	text_append(&out, "%.*s", (int)((colon ? colon + 1 : rest) - uri), uri);
	if (colon)
		text_append(&out, "%s", colon + 1 < end ? mask : "");
	options = strcspn(rest, "?");
	text_append(&out, "%.*s", (int)options, rest);
	if (rest[options]) {
		text_append(&out, "?");
		mask_options(&out, rest + options + 1);
	}
	return text_steal(&out);
}

bool uri_has_secret(const char *uri)
{
	auto_free char *masked = uri_masked(uri);

	return strcmp(masked, uri) != 0;
}

bool uri_has_user(const char *uri)
{
	const char *scheme = strstr(uri, "://");

	return credentials_end(scheme ? scheme + 3 : uri);
}

bool uri_is_srv(const char *uri)
{
	return strncmp(uri, "mongodb+srv://", 14) == 0;
}

#define PERCENT_ENCODE \
	"percent-encode the user name and password ('@' is %40, ':' is %3A, '/' is %2F, '?' is " \
	"%3F)"

/* Whatever stands before an '@' may be a password, so nothing of the URI is repeated. */
static const char *credentials_mistake(const char *authority)
{
	size_t length = strcspn(authority, "/?");
	const char *at = strchr(authority, '@'), *colon;

	if (!at)
		return NULL;
	if (at >= authority + length || strchr(at + 1, '@'))
		return "it may have one '@', before the hosts: " PERCENT_ENCODE;
	colon = memchr(authority, ':', (size_t)(at - authority));
	if (colon && memchr(colon + 1, ':', (size_t)(at - colon) - 1))
		return "a ':' in the password is not escaped: " PERCENT_ENCODE;
	return NULL;
}

/* Those of mongo-c-driver 1.23: it passes over others without a word, a misspelt `tls` too. */
static const char *const known_options[] = {
	"appName",
	"authMechanism",
	"authMechanismProperties",
	"authSource",
	"canonicalizeHostname",
	"compressors",
	"connectTimeoutMS",
	"directConnection",
	"gssapiServiceName",
	"heartbeatFrequencyMS",
	"journal",
	"loadBalanced",
	"localThresholdMS",
	"maxIdleTimeMS",
	"maxPoolSize",
	"maxStalenessSeconds",
	"minPoolSize",
	"readConcernLevel",
	"readPreference",
	"readPreferenceTags",
	"replicaSet",
	"retryReads",
	"retryWrites",
	"safe",
	"serverSelectionTimeoutMS",
	"serverSelectionTryOnce",
	"slaveOk",
	"socketCheckIntervalMS",
	"socketTimeoutMS",
	"srvMaxHosts",
	"srvServiceName",
	"ssl",
	"sslAllowInvalidCertificates",
	"sslAllowInvalidHostnames",
	"sslCertificateAuthorityFile",
	"sslClientCertificateKeyFile",
	"sslClientCertificateKeyPassword",
	"tls",
	"tlsAllowInvalidCertificates",
	"tlsAllowInvalidHostnames",
	"tlsCAFile",
	"tlsCertificateKeyFile",
	"tlsCertificateKeyFilePassword",
	"tlsDisableCertificateRevocationCheck",
	"tlsDisableOCSPEndpointCheck",
	"tlsInsecure",
	"w",
	"waitQueueMultiple",
	"waitQueueTimeoutMS",
	"wTimeoutMS",
	"zlibCompressionLevel",
	NULL,
};

static bool is_known_option(struct bytes name)
{
	for (const char *const *known = known_options; *known; known++)
		if (strlen(*known) == name.length &&
		    strncasecmp(*known, (const char *)name.data, name.length) == 0)
			return true;
	return false;
}

static bool has_secret_option(const char *options)
{
	for (size_t i = 0; i < ARRAY_LENGTH(secret_options); i++)
		if (strcasestr(options, secret_options[i]))
			return true;
	return false;
}

/* Of the options, as they stand behind the '?'. What follows a secret may be a part of it. */
static char *options_mistake(const char *options)
{
	auto_buffer struct buffer out = {0};

	for (const char *at = options; *at; at += strspn(at, "&")) {
		struct bytes name = {(const uint8_t *)at, strcspn(at, "=&")};

		at += strcspn(at, "&");
		if (is_known_option(name))
			continue;
		if (has_secret_option(options))
			text_append(&out, "an option is not known ('&' in a value is %%26)");
		else
			text_append(&out, "the option '%s' is not known; did you mean '%s'?",
				    text_quote(name).text, text_nearest(name, known_options));
		return text_steal(&out);
	}
	return NULL;
}

char *uri_mistake(const char *uri)
{
	const char *scheme = strstr(uri, "://");
	const char *credentials = credentials_mistake(scheme ? scheme + 3 : uri);
	const char *options = strchr(uri, '?');

	if (credentials)
		return must_strndup(credentials, strlen(credentials));
	return options ? options_mistake(options + 1) : NULL;
}

const char *uri_hosts_mistake(const char *uri)
{
	const char *scheme = strstr(uri, "://");
	const char *authority = scheme ? scheme + 3 : uri;
	const char *end = authority + strcspn(authority, "/?");
	const char *at = credentials_end(authority);
	const char *hosts = at ? at + 1 : authority;

	if (uri_is_srv(uri))
		return "mongodb+srv:// is understood with 'replica_set' only: name the servers, "
		       "as in mongodb://HOST:PORT,HOST:PORT/";
	if (strncmp(uri, "mongodb://", 10) != 0)
		return "it must begin with mongodb://";
	if (hosts == end || memchr(hosts, '%', (size_t)(end - hosts)))
		return "servers must stand in it as HOST:PORT; Unix sockets can't be used here";
	return NULL;
}

char *uri_host(const char *uri, size_t index)
{
	const char *scheme = strstr(uri, "://");
	const char *authority = scheme ? scheme + 3 : uri;
	const char *at = credentials_end(authority);
	const char *host = at ? at + 1 : authority;
	size_t length = strcspn(host, ",/?");

	for (; index > 0 && host[length] == ','; index--) {
		host += length + 1;
		length = strcspn(host, ",/?");
	}
	return index == 0 ? must_strndup(host, length) : NULL;
}

const char *uri_driver_mistake(const char *message)
{
	static const char *const quoting[] = {"username \"", "password \""};
	bool secret = false;

	for (size_t i = 0; i < ARRAY_LENGTH(quoting); i++)
		secret = secret || strcasestr(message, quoting[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(secret_options); i++)
		secret = secret || strcasestr(message, secret_options[i]);
	return secret ? "something secret in it can't be read: " PERCENT_ENCODE : message;
}
