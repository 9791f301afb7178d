/* Tests rules/config/uri.c: secrets in connection strings, and what is wrong with them. */
#include "tests/unit/unit.h"

#include "rules/config/uri.h"

static void expect(const char *uri, const char *expected)
{
	auto_free char *masked = uri_masked(uri);

	cr_assert_str_eq(masked, expected);
	cr_assert_eq(uri_has_secret(uri), strcmp(uri, expected) != 0);
}

Test(uri, what_is_secret_is_masked)
{
	expect("mongodb://ann:pass@h:1/", "mongodb://ann:***@h:1/");
	expect("mongodb://ann:p:q@h", "mongodb://ann:***@h");
	expect("mongodb://ann:p@q@h/x?y=z", "mongodb://ann:***@h/x?y=z");
	expect("mongodb+srv://ann:pass@h/?a=b", "mongodb+srv://ann:***@h/?a=b");
	expect("mongodb://h/?tls=true&tlsCertificateKeyFilePassword=x&a=b",
	       "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=***&a=b");
	expect("mongodb://h?SSLCLIENTCERTIFICATEKEYPASSWORD=x;a=b",
	       "mongodb://h?SSLCLIENTCERTIFICATEKEYPASSWORD=***;a=b");
	expect("mongodb://a:b@h/?authMechanismProperties=AWS_SESSION_TOKEN:x",
	       "mongodb://a:***@h/?authMechanismProperties=***");
}

Test(uri, what_is_not_secret_stays)
{
	expect("mongodb://127.0.0.1:27017/", "mongodb://127.0.0.1:27017/");
	expect("mongodb://[::1]:27017,h:2/?appName=a:b@c",
	       "mongodb://[::1]:27017,h:2/?appName=a:b@c");
	expect("mongodb://ann@h:1/", "mongodb://ann@h:1/");
	expect("mongodb://ann:@h/", "mongodb://ann:@h/");
	expect("mongodb://h/?a=b&&c;", "mongodb://h/?a=b&&c;");
	expect("", "");
	expect("h", "h");
}

/* In all of them the password is `hunter2`, with something unescaped in it. */
static void expect_mistake(const char *uri, const char *beginning)
{
	auto_free char *mistake = uri_mistake(uri);

	cr_assert(mistake, "%s", uri);
	cr_assert_eq(strncmp(mistake, beginning, strlen(beginning)), 0, "%s", mistake);
	cr_assert_not_null(strstr(mistake, "percent-encode the user name and password"));
	cr_assert_null(strstr(mistake, "hunter"));
	cr_assert_null(strstr(mistake, "ter2"));
}

static void expect_no_mistake(const char *uri)
{
	auto_free char *mistake = uri_mistake(uri);

	cr_assert(!mistake, "%s: %s", uri, mistake);
}

Test(uri, an_unescaped_password_is_refused_without_showing_it)
{
	static const char one[] = "it may have one '@', before the hosts: ";
	static const char colon[] = "a ':' in the password is not escaped: ";

	expect_mistake("mongodb://ann:hun@ter2@h/", one);
	expect_mistake("mongodb://ann:hun/ter2@h/", one);
	expect_mistake("mongodb://ann:hun?ter2=x@h/", one);
	expect_mistake("mongodb://ann@x:hun/?ter2@h/", one);
	expect_mistake("mongodb://ann:hun:ter2@h/", colon);
	expect_mistake("mongodb://ann::hunter2@h/", colon);
	expect_no_mistake("mongodb://ann:hun%40t%3Aer2@h:1,[::1]:2/x?w=1");
	expect_no_mistake("mongodb://ann@h");
	expect_no_mistake("mongodb://h/x?TLS=true&authsource=a&tlsCAFile=b");
	expect_no_mistake("mongodb://ann:@h");
	expect_no_mistake("mongodb://[::1]:27017,h:2/?appName=a:b");
}

Test(uri, an_option_that_is_not_known_is_refused)
{
	static const char *const uris[][2] = {
		{"mongodb://h/?tlss=true", "the option 'tlss' is not known; did you mean 'tls'?"},
		{"mongodb://h/?tls=true&authSorce=a",
		 "the option 'authSorce' is not known; did you mean 'authSource'?"},
		{"mongodb://h/?tls=true&tlsCertificateKeyFilePassword=hun&ter2",
		 "an option is not known ('&' in a value is %26)"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(uris); i++) {
		auto_free char *mistake = uri_mistake(uris[i][0]);

		cr_assert_str_eq(mistake, uris[i][1]);
	}
}

Test(uri, the_drivers_words_are_taken_but_for_those_that_quote_secrets)
{
	static const char instead[] = "something secret in it can't be read: percent-encode";
	static const char *const quoting[] = {
		"Password \"hunter:2\" must not have unescaped chars. Percent-encode",
		"Username \"hunter@2\" must not have unescaped chars. Percent-encode",
		"Unsupported value for \"authmechanismproperties\": \"AWS_SESSION_TOKEN:hunter\"",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(quoting); i++)
		cr_assert_eq(strncmp(uri_driver_mistake(quoting[i]), instead, strlen(instead)), 0);
	cr_assert_str_eq(uri_driver_mistake("Invalid host string in URI"),
			 "Invalid host string in URI");
}
