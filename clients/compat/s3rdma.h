/* The client half of libs3rdma's C interface, as MinIO's SDKs for C++, Go, Python and Rust call it. Handles are numbers
 * that are never used again: a freed one is refused. All functions may be called from any thread. */
#ifndef VERBENA_COMPAT_S3RDMA_H
#define VERBENA_COMPAT_S3RDMA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* S3RdmaClientHandle;

enum { S3RDMA_MEM_SYSTEM = 0, S3RDMA_MEM_CUDA_MANAGED = 1, S3RDMA_MEM_CUDA_DEVICE = 2, S3RDMA_MEM_UNKNOWN = 3 };

const char* s3rdma_version(void);
/* 1 if a client could be opened here; `buffer` gets the reason if not. */
int s3rdma_check_rdma(char* buffer, size_t size);
/* The calling thread's last error; returns its length. */
size_t s3rdma_last_error(char* buffer, size_t size);

/* `device`: device names, separated by commas; NULL or empty: $S3RDMA_DEVICE, else every usable one. NULL on failure,
 * with the reason in `error` (which may be NULL). */
S3RdmaClientHandle s3rdma_client_init(const char* device, char* error, size_t error_size);
void s3rdma_client_free(S3RdmaClientHandle client);
int s3rdma_client_ready(S3RdmaClientHandle client);
int s3rdma_client_nic_count(S3RdmaClientHandle client);
int s3rdma_client_healthy_nic_count(S3RdmaClientHandle client);
/* The token's device is passed over for a while. 0; -1 if it is none of the client's. */
int s3rdma_client_report_token_failure(S3RdmaClientHandle client, const char* token);
/* 0, or -1. Counted by address: the memory stays pinned until it was deregistered as often. */
int s3rdma_client_register(S3RdmaClientHandle client, void* memory, size_t size);
int s3rdma_client_deregister(S3RdmaClientHandle client, void* memory);
/* A token for `size` bytes at `offset` of pinned memory, for both directions. 0, or -1 with *token NULL. */
int s3rdma_client_get_token(S3RdmaClientHandle client, void* memory, size_t size, size_t offset, char** token);
void s3rdma_client_free_token(char* token);
/* S3RDMA_MEM_*. Without NVIDIA's driver all memory is SYSTEM. */
int s3rdma_client_memory_type(const void* memory);

#ifdef __cplusplus
}
#endif

#endif
