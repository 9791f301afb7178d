/* The bare libuv pipe: what any proxy on libuv pays before it has done any work of its own. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { READ_SIZE = 65536 };

/* One direction's end: what is read here is written to `other`. */
struct end {
	uv_tcp_t tcp;
	struct end *other;
	struct pair *pair;
};

struct pair {
	struct end client, server;
	uv_connect_t connect;
	int open; /* ends whose close callback is still to come */
};

/* Bytes that the kernel did not take at once. */
struct rest {
	uv_write_t request;
	struct end *from; /* not read until the rest is out */
	char bytes[];
};

static uv_loop_t loop;
static struct sockaddr_in upstream;

static void pair_on_closed(uv_handle_t *handle)
{
	struct pair *pair = ((struct end *)handle->data)->pair;

	if (--pair->open == 0)
		free(pair);
}

static void pair_close(struct pair *pair)
{
	if (uv_is_closing((uv_handle_t *)&pair->client.tcp))
		return;
	uv_close((uv_handle_t *)&pair->client.tcp, pair_on_closed);
	uv_close((uv_handle_t *)&pair->server.tcp, pair_on_closed);
}

static void end_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	static char shared[READ_SIZE];

	(void)handle;
	(void)suggested;
	*buffer = uv_buf_init(shared, sizeof(shared));
}

static void end_on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer);

static void end_read(struct end *end)
{
	uv_read_start((uv_stream_t *)&end->tcp, end_on_alloc, end_on_read);
}

static void rest_on_written(uv_write_t *request, int status)
{
	struct rest *rest = (struct rest *)request;

	if (status == 0)
		end_read(rest->from);
	free(rest);
}

static void end_queue(struct end *from, const char *bytes, size_t length)
{
	struct rest *rest = malloc(sizeof(*rest) + length);
	uv_buf_t buffer;

	if (rest == NULL)
		err(1, "malloc");
	rest->from = from;
	memcpy(rest->bytes, bytes, length);
	buffer = uv_buf_init(rest->bytes, (unsigned)length);
	uv_read_stop((uv_stream_t *)&from->tcp);
	if (uv_write(&rest->request, (uv_stream_t *)&from->other->tcp, &buffer, 1,
		     rest_on_written) != 0) {
		free(rest);
		pair_close(from->pair);
	}
}

static void end_on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
	struct end *end = stream->data;
	uv_buf_t out;
	int sent;

	if (length == 0)
		return;
	if (length < 0) {
		pair_close(end->pair);
		return;
	}
	out = uv_buf_init(buffer->base, (unsigned)length);
	sent = uv_try_write((uv_stream_t *)&end->other->tcp, &out, 1);
	if (sent == length)
		return;
	if (sent < 0 && sent != UV_EAGAIN) {
		pair_close(end->pair);
		return;
	}
	sent = sent < 0 ? 0 : sent;
	end_queue(end, buffer->base + sent, (size_t)(length - sent));
}

static void pair_on_connect(uv_connect_t *request, int status)
{
	struct pair *pair = request->data;

	if (status != 0) {
		pair_close(pair);
		return;
	}
	end_read(&pair->client);
	end_read(&pair->server);
}

static void end_init(struct end *end, struct end *other, struct pair *pair)
{
	uv_tcp_init(&loop, &end->tcp);
	end->tcp.data = end;
	end->other = other;
	end->pair = pair;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (pair == NULL || status != 0)
		errx(1, "accept");
	pair->open = 2;
	pair->connect.data = pair;
	end_init(&pair->client, &pair->server, pair);
	end_init(&pair->server, &pair->client, pair);
	if (uv_accept(listener, (uv_stream_t *)&pair->client.tcp) != 0 ||
	    uv_tcp_connect(&pair->connect, &pair->server.tcp, (const struct sockaddr *)&upstream,
			   pair_on_connect) != 0) {
		pair_close(pair);
		return;
	}
	uv_tcp_nodelay(&pair->client.tcp, 1);
	uv_tcp_nodelay(&pair->server.tcp, 1);
}

/* Usage: pipe LISTEN_PORT SERVER_PORT. Prints the port it listens on. */
int main(int argc, char **argv)
{
	struct sockaddr_in address;
	int length = sizeof(address);
	uv_tcp_t listener;

	if (argc != 3)
		errx(2, "usage: pipe LISTEN_PORT SERVER_PORT");
	uv_loop_init(&loop);
	uv_tcp_init(&loop, &listener);
	uv_ip4_addr("127.0.0.1", atoi(argv[1]), &address);
	uv_ip4_addr("127.0.0.1", atoi(argv[2]), &upstream);
	if (uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0) != 0 ||
	    uv_listen((uv_stream_t *)&listener, 4096, on_connection) != 0)
		errx(1, "cannot listen on port %s", argv[1]);
	uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &length);
	printf("%u\n", ntohs(address.sin_port));
	fflush(stdout);
	return uv_run(&loop, UV_RUN_DEFAULT);
}
