"""Commands and forwarded ports by the official Python client: one pod `web` in `shop` that serves
`/page` on the port given as the first argument."""
import sys
import time

from kubernetes import client, config
from kubernetes.stream import portforward, stream

NAMESPACE = "shop"
POD = "web"


def test_exec_gives_both_outputs(core, port):
    command = ["sh", "-c", "echo out; echo err >&2"]
    said = stream(core.connect_get_namespaced_pod_exec, POD, NAMESPACE, command=command,
                  stdin=False, stdout=True, stderr=True, tty=False)
    assert sorted(said.split()) == ["err", "out"], said


def test_exec_tells_the_exit_code(core, port):
    running = stream(core.connect_get_namespaced_pod_exec, POD, NAMESPACE,
                     command=["sh", "-c", "exit 9"], stdout=True, stderr=True,
                     _preload_content=False)
    running.run_forever(timeout=20)
    assert running.returncode == 9, running.returncode


def test_exec_reads_input(core, port):
    running = stream(core.connect_get_namespaced_pod_exec, POD, NAMESPACE,
                     command=["sh", "-c", "read line; echo heard $line"], stdin=True, stdout=True,
                     stderr=True, _preload_content=False)
    running.write_stdin("hello\n")
    running.run_forever(timeout=20)
    assert running.read_stdout() == "heard hello\n"
    assert running.returncode == 0


def test_forward_carries_http(core, port):
    for _ in range(100):
        forwarded = portforward(core.connect_get_namespaced_pod_portforward, POD, NAMESPACE,
                                ports=str(port))
        socket = forwarded.socket(port)
        socket.setblocking(True)
        socket.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        answer = b""
        while part := socket.recv(4096):
            answer += part
        if answer.endswith(b"hello\n"):
            return
        time.sleep(0.1)
    raise AssertionError((answer, forwarded.error(port)))


def test_logs_are_read(core, port):
    assert core.read_namespaced_pod_log(POD, NAMESPACE, tail_lines=0) == ""


if __name__ == "__main__":
    config.load_kube_config()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test(client.CoreV1Api(), int(sys.argv[1]))
    print("all well")
