// Forwards requests to a server with its token, for clients that cannot send one: with-token.mjs URL TOKEN
import http from "node:http";

const [target, token] = process.argv.slice(2);
const { hostname, port } = new URL(target);

const server = http.createServer((request, response) => {
	const headers = { ...request.headers, authorization: `Bearer ${token}` };
	// The names of the client, but at the server's port, so that its checks apply.
	for (const name of ["host", "origin"]) {
		headers[name] &&= headers[name].replace(/:\d+$/, `:${port}`);
	}
	const options = { hostname, port, path: request.url, method: request.method, headers };
	const forwarded = http.request(options, (answer) => {
		response.writeHead(answer.statusCode, answer.headers);
		answer.pipe(response);
	});
	forwarded.on("error", () => response.destroy());
	response.on("close", () => forwarded.destroy());
	request.pipe(forwarded);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
