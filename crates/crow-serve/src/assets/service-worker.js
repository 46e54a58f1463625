// Keeps the files of the page, so that the installed page opens and says so when the server is not running. Nothing of a
// session is kept: requests of the interface pass by.
const CACHE = "crow-page";
const FILES = ["/", "/app.js", "/app.css", "/report.css", "/icon.svg", "/icon.png", "/app.webmanifest"];

self.addEventListener("install", (event) => {
	event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
	event.waitUntil(self.clients.claim());
});

self.addEventListener("fetch", (event) => {
	const path = new URL(event.request.url).pathname;
	if (event.request.method !== "GET" || !FILES.includes(path)) {
		return;
	}
	event.respondWith(fromServer(event.request, path));
});

async function fromServer(request, path) {
	try {
		const response = await fetch(request);
		if (response.ok) {
			const cache = await caches.open(CACHE);
			await cache.put(path, response.clone());
		}
		return response;
	} catch (error) {
		return (await caches.match(path)) ?? Response.error();
	}
}
