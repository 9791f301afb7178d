/* Ways to sign in that do not go through a proxy, or not on this connection. */
#pragma once

#include "rules/match/match.h"

/* How the connection goes: with TLS to the client, with TLS to the server. */
struct sign_in_way {
	bool client_tls;
	bool server_tls;
};

/* Turns the match of a command that signs in into a refusal:
 *
 *   MONGODB-X509   if Spillway speaks TLS to the server: that would take Spillway's own certificate
 *                  for the client's
 *   PLAIN          if the password would go over a connection without TLS */
void sign_in_judge(struct match *match, struct sign_in_way way);
