"""A run of the program against a model that answers at once, with its telemetry sent over gRPC."""

import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choice = {"index": 0, "delta": {"content": "Good day."}, "finish_reason": "stop"}
        rows = [{"choices": [choice]}, {"choices": [], "usage": usage}]
        rows = [json.dumps({"id": "reply", "model": "test", **row}) for row in rows]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write("".join(f"data: {row}\n\n" for row in [*rows, "[DONE]"]).encode())

    def log_message(self, *_):
        pass


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self):
        self.spans, self.metadata = [], {}

    def Export(self, request, context):
        self.metadata = dict(context.invocation_metadata())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self):
        self.names = set()

    def Export(self, request, context):
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.names.update(metric.name for metric in scope.metrics)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Logs(logs_service_pb2_grpc.LogsServiceServicer):
    """Takes logs, of which a run without warnings has none."""

    def Export(self, request, context):
        return logs_service_pb2.ExportLogsServiceResponse()


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    traces, metrics = Traces(), Metrics()
    collector = grpc.server(futures.ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(traces, collector)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, collector)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), collector)
    port = collector.add_insecure_port("127.0.0.1:0")
    collector.start()
    run(folder, model.server_port, f"http://127.0.0.1:{port}")
    assert traces.metadata.get("authorization") == "Bearer abc", traces.metadata
    names = sorted(span.name for span in traces.spans)
    assert names == ["chat test", "invoke_agent builder", "invoke_workflow builder"], names
    assert "gen_ai.client.token.usage" in metrics.names, metrics.names
    collector.stop(None)
    # Nobody listens any more: the run is as long and says what was lost.
    told = run(folder, model.server_port, f"http://127.0.0.1:{port}")
    assert "of the telemetry were not sent" in told, told
    model.shutdown()
    print("telemetry over gRPC: 4 passed, 0 failed")


def run(folder, model_port, collector):
    """Returns what the program writes to standard error."""
    home, project = folder / "home", folder / "project"
    providers = home / ".config/crow-agent/providers"
    providers.mkdir(parents=True, exist_ok=True)
    project.mkdir(exist_ok=True)
    (providers / "lab.toml").write_text(
        f'[provider]\nname = "lab"\ntype = "openai-chat"\nbase_url = "http://127.0.0.1:{model_port}/v1"\n\n[models."test"]\ncontext_window = 100000\n'
    )
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc",
        "OTEL_BSP_SCHEDULE_DELAY": "1",
    }
    command = [os.environ["CROW_AGENT"], "run", "-m", "lab/test", "hello"]
    ran = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran
    return ran.stderr


main()
