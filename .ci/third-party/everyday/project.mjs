// A project with tests in three languages, each of which starts a server and talks to it.

const PYTHON = `
import http.server
import threading
import urllib.request

import pytest


@pytest.fixture(scope="session")
def url():
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def test_the_server_answers(url):
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200


def test_temporary_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("x")
    assert (tmp_path / "a").read_text() == "x"


def test_a_program_of_its_own(url, tmp_path):
    import subprocess, sys

    script = f"import urllib.request as u; print(u.urlopen({url!r}).status)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "200\\n"
`;

const NODE = `
import assert from "node:assert";
import http from "node:http";
import test from "node:test";

test("the server answers", async () => {
	const server = http.createServer((_, response) => response.end("x"));
	await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
	const answer = await fetch("http://127.0.0.1:" + server.address().port);
	assert.equal(await answer.text(), "x");
	server.close();
});
`;

const RUST = `
#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    #[test]
    fn the_server_answers() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serving = thread::spawn(move || server.accept().unwrap().0.write_all(b"x").unwrap());
        let mut answer = String::new();
        TcpStream::connect(address).unwrap().read_to_string(&mut answer).unwrap();
        serving.join().unwrap();
        assert_eq!(answer, "x");
    }
}
`;

export const FILES = {
	".gitignore": ".venv/\ntarget/\n__pycache__/\nscratch/\n",
	"test_server.py": PYTHON,
	"package.json": '{ "name": "day", "version": "1.0.0", "type": "module", "scripts": { "test": "node --test --test-reporter=tap" } }\n',
	"server.test.mjs": NODE,
	"Cargo.toml": '[package]\nname = "day"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n',
	"src/lib.rs": RUST,
};
