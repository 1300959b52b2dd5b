/* A CUDA driver library without a device: memory is the host's, streams run at once, and the one
   kernel scales an array. With it the real cuda-bindings see the arguments that we pass. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Status;
typedef uint64_t Pointer;
typedef void *Handle;

static intptr_t last_handle = 100;

static Status ok(void) { return 0; }
static Status driver_version(int *v) { *v = 13000; return 0; }
static Status device_count(int *count) { *count = 2; return 0; }
static Status device_get(int *device, int index) { *device = index; return 0; }
static Status device_name(char *name, int size, int device) {
  snprintf(name, size, "Stub %d", device);
  return 0;
}
static Status total_memory(size_t *bytes, int device) { (void)device; *bytes = 1 << 30; return 0; }
static Status attribute(int *value, int which, int device) {
  (void)device;
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 10 ? 32 : which == 8 ? 49152 : 1024;
  return 0;
}
static Status retain(Handle *context, int device) {
  *context = (Handle)(intptr_t)(0x1000 + device);
  return 0;
}
static Status mem_alloc(Pointer *p, size_t n) {
  if (n > (1 << 28)) return 2;
  *p = (Pointer)aligned_alloc(512, (n + 511) / 512 * 512);
  return 0;
}
static Status mem_free(Pointer p) { free((void *)p); return 0; }
static Status host_alloc(void **p, size_t n, unsigned flags) {
  (void)flags;
  *p = malloc(n);
  return 0;
}
static Status host_free(void *p) { free(p); return 0; }
static Status mem_info(size_t *left, size_t *total) { *left = 7; *total = 9; return 0; }
static Status to_device(Pointer d, const void *s, size_t n, Handle stream) {
  (void)stream;
  memcpy((void *)d, s, n);
  return 0;
}
static Status to_host(void *d, Pointer s, size_t n, Handle stream) {
  (void)stream;
  memcpy(d, (void *)s, n);
  return 0;
}
static Status on_device(Pointer d, Pointer s, size_t n, Handle stream) {
  (void)stream;
  memcpy((void *)d, (void *)s, n);
  return 0;
}
static Status between(Pointer d, Handle dc, Pointer s, Handle sc, size_t n, Handle stream) {
  (void)stream;
  if (dc == sc) return 1;
  memcpy((void *)d, (void *)s, n);
  return 0;
}
static Status new_handle(Handle *h, unsigned flags) {
  (void)flags;
  *h = (Handle)++last_handle;
  return 0;
}
static Status elapsed(float *t, Handle a, Handle b) { (void)a; (void)b; *t = 1.5f; return 0; }
static Status load(Handle *module, const void *image) {
  *module = (Handle)0x77;
  return memcmp(image, "cubin", 5) ? 200 : 0;
}
static Status unload(Handle module) { return module == (Handle)0x77 ? 0 : 1; }
static Status exchange(int *mode) {
  static int now = 0;
  int before = now;
  now = *mode;
  *mode = before;
  return 0;
}
static Status function(Handle *f, Handle module, const char *name) {
  *f = (Handle)0x88;
  return module == (Handle)0x77 && !strcmp(name, "scale") ? 0 : 500;
}
static Status function_attribute(int *v, int which, Handle f) { (void)f; *v = 40 + which; return 0; }
static Status occupancy(int *blocks, Handle f, int threads, size_t shared) {
  (void)f;
  (void)shared;
  *blocks = 2048 / threads;
  return 0;
}
static Status error_string(Status s, const char **text) { (void)s; *text = "words"; return 0; }
static Status encode(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                     const uint64_t *strides, const unsigned *box, const unsigned *steps,
                     int interleave, int swizzle, int promotion, int fill) {
  (void)promotion;
  if ((Pointer)map % 128) return 1;
  if (type != 7 || rank != 2 || (Pointer)address % 16 || dims[0] != 8 || dims[1] != 4) return 1;
  if (strides[0] != 32 || box[0] != 8 || box[1] != 2 || steps[0] != 1 || steps[1] != 1) return 1;
  if (interleave || swizzle != 1 || fill) return 1;
  memset(map, 0, 128);
  memcpy(map, &address, sizeof address);
  return 0;
}
static Status encode_images(void *map, int type, unsigned rank, void *address,
                            const uint64_t *dims, const uint64_t *strides, const int *lower,
                            const int *upper, unsigned channels, unsigned pixels,
                            const unsigned *steps, int interleave, int swizzle, int promotion,
                            int fill) {
  (void)promotion;
  if ((Pointer)map % 128) return 1;
  if (type != 7 || rank != 4 || (Pointer)address % 16) return 1;
  if (dims[0] != 4 || dims[1] != 3 || dims[2] != 2 || dims[3] != 1) return 1;
  if (strides[0] != 16 || strides[1] != 48 || strides[2] != 96) return 1;
  if (lower[0] != -1 || lower[1] != -2 || upper[0] != 3 || upper[1] != -4) return 1;
  if (channels != 4 || pixels != 300) return 1;
  if (steps[0] != 1 || steps[1] != 2 || steps[2] != 5 || steps[3] != 1) return 1;
  if (interleave || swizzle != 1 || fill) return 1;
  memset(map, 0, 128);
  memcpy(map, &address, sizeof address);
  return 0;
}
static Status launch(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                     unsigned bz, unsigned shared, Handle stream, void **params, void **extra) {
  (void)gz, (void)by, (void)bz, (void)stream;
  if (f != (Handle)0x88 || extra || shared != 50000 || bx > 1024) return 1;
  if (gy == 7 && ((Pointer)params[0] % 128 || *(float **)params[0] != *(float **)params[1])) return 1;
  const float *a = *(float **)params[0];
  float *b = *(float **)params[1];
  float factor = *(float *)params[2];
  unsigned n = *(unsigned *)params[3];
  for (unsigned i = 0; i < n && i < gx * bx; i++) b[i] = a[i] * factor;
  return 0;
}
static Status end_capture(Handle stream, Handle *graph) {
  *graph = (Handle)0x99;
  return stream ? 0 : 1;
}
static Status instantiate(Handle *ready, Handle graph, unsigned long long flags) {
  *ready = (Handle)0xaa;
  return graph == (Handle)0x99 && !flags ? 0 : 1;
}
static Status graph_launch(Handle ready, Handle stream) {
  (void)stream;
  return ready == (Handle)0xaa ? 0 : 1;
}

static Status proc_address(const char *name, void **found, int version, uint64_t flags, int *status);

static const struct {
  const char *name;
  void *function;
} TABLE[] = {
    {"cuGetProcAddress", proc_address},
    {"cuInit", ok},
    {"cuDriverGetVersion", driver_version},
    {"cuDeviceGetCount", device_count},
    {"cuDeviceGet", device_get},
    {"cuDeviceGetName", device_name},
    {"cuDeviceTotalMem", total_memory},
    {"cuDeviceGetAttribute", attribute},
    {"cuDevicePrimaryCtxRetain", retain},
    {"cuCtxSetCurrent", ok},
    {"cuCtxSynchronize", ok},
    {"cuMemAlloc", mem_alloc},
    {"cuMemFree", mem_free},
    {"cuMemHostAlloc", host_alloc},
    {"cuMemFreeHost", host_free},
    {"cuMemGetInfo", mem_info},
    {"cuMemcpyHtoDAsync", to_device},
    {"cuMemcpyDtoHAsync", to_host},
    {"cuMemcpyDtoDAsync", on_device},
    {"cuMemcpyPeerAsync", between},
    {"cuStreamCreate", new_handle},
    {"cuStreamDestroy", ok},
    {"cuStreamSynchronize", ok},
    {"cuStreamWaitEvent", ok},
    {"cuEventCreate", new_handle},
    {"cuEventDestroy", ok},
    {"cuEventRecord", ok},
    {"cuEventQuery", ok},
    {"cuEventSynchronize", ok},
    {"cuEventElapsedTime", elapsed},
    {"cuModuleLoadData", load},
    {"cuModuleGetFunction", function},
    {"cuModuleUnload", unload},
    {"cuThreadExchangeStreamCaptureMode", exchange},
    {"cuFuncGetAttribute", function_attribute},
    {"cuFuncSetAttribute", ok},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", occupancy},
    {"cuGetErrorString", error_string},
    {"cuLaunchKernel", launch},
    {"cuTensorMapEncodeTiled", encode},
    {"cuTensorMapEncodeIm2col", encode_images},
    {"cuStreamBeginCapture", ok},
    {"cuStreamEndCapture", end_capture},
    {"cuGraphInstantiate", instantiate},
    {"cuGraphInstantiateWithFlags", instantiate},
    {"cuGraphDestroy", ok},
    {"cuGraphLaunch", graph_launch},
    {"cuGraphUpload", graph_launch},
    {"cuGraphExecDestroy", ok},
};

static Status proc_address(const char *name, void **found, int version, uint64_t flags,
                           int *status) {
  (void)version;
  (void)flags;
  *found = 0;
  for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
    if (!strcmp(TABLE[i].name, name)) *found = TABLE[i].function;
  if (status) *status = !*found;
  return *found ? 0 : 500;
}

/* cuda-bindings find every other function through this one. */
Status cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags,
                           int *status) {
  return proc_address(name, found, version, flags, status);
}
