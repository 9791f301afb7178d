/* Tests rules/uri.c: secrets in connection strings. */
#include "tests/unit/unit.h"

#include "rules/uri.h"

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
