"""What every test of this folder shares: where it works, and how a refusal is expected."""
from kubernetes.client.rest import ApiException

NAMESPACE = "python"


def refused(code, call):
    try:
        call()
    except ApiException as error:
        assert error.status == code, f"{error.status}, not {code}: {error.body}"
        return error
    raise AssertionError(f"expected {code}, got success")
