"""The calls of libs3rdma.so.0."""
import ctypes

# name: (result, arguments), as the public header of libs3rdma has them.
P, S, I, T = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
SYMBOLS = {
    "s3rdma_version": (T, []), "s3rdma_check_rdma": (I, [T, S]), "s3rdma_last_error": (S, [T, S]),
    "s3rdma_client_init": (P, [T, T, S]), "s3rdma_client_free": (None, [P]), "s3rdma_client_ready": (I, [P]),
    "s3rdma_client_nic_count": (I, [P]), "s3rdma_client_healthy_nic_count": (I, [P]),
    "s3rdma_client_report_token_failure": (I, [P, T]), "s3rdma_client_register": (I, [P, P, S]), "s3rdma_client_deregister": (I, [P, P]),
    "s3rdma_client_get_token": (I, [P, P, S, S, ctypes.POINTER(P)]), "s3rdma_client_free_token": (None, [P]),
    "s3rdma_client_memory_type": (I, [P]),
}


def load(path):
    library = ctypes.CDLL(path)
    for name, (result, arguments) in SYMBOLS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def token(library, client, memory, size, offset=0):
    out = P(1)
    if library.s3rdma_client_get_token(client, memory, size, offset, ctypes.byref(out)) != 0:
        assert out.value is None, "a token that was refused must be NULL"
        return None
    text = ctypes.string_at(out).decode()
    library.s3rdma_client_free_token(out)
    return text
