/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Streams, events, graphs: they are the driver's.
 */
#include "internal.h"

HS_API hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    HS_CALL(hs_driver.cuStreamCreate((CUstream *)stream, flags));
}

HS_API hipError_t hipStreamCreate(hipStream_t *stream)
{
    HS_CALL(hs_driver.cuStreamCreate((CUstream *)stream, 0));
}

HS_API hipError_t hipStreamDestroy(hipStream_t stream)
{
    HS_RELEASE(hs_driver.cuStreamDestroy_v2((CUstream)stream));
}

HS_API hipError_t hipStreamSynchronize(hipStream_t stream)
{
    HS_CALL(hs_driver.cuStreamSynchronize((CUstream)stream));
}

HS_API hipError_t hipStreamQuery(hipStream_t stream)
{
    HS_CALL(hs_driver.cuStreamQuery((CUstream)stream));
}

HS_API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    HS_CALL(hs_driver.cuStreamWaitEvent((CUstream)stream, (CUevent)event, flags));
}

HS_API hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    HS_CALL(hs_driver.cuEventCreate((CUevent *)event, flags));
}

HS_API hipError_t hipEventCreate(hipEvent_t *event)
{
    HS_CALL(hs_driver.cuEventCreate((CUevent *)event, 0));
}

HS_API hipError_t hipEventDestroy(hipEvent_t event)
{
    HS_RELEASE(hs_driver.cuEventDestroy_v2((CUevent)event));
}

HS_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    HS_CALL(hs_driver.cuEventRecord((CUevent)event, (CUstream)stream));
}

HS_API hipError_t hipEventQuery(hipEvent_t event)
{
    HS_CALL(hs_driver.cuEventQuery((CUevent)event));
}

HS_API hipError_t hipEventSynchronize(hipEvent_t event)
{
    HS_CALL(hs_driver.cuEventSynchronize((CUevent)event));
}

HS_API hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    HS_CALL(hs_driver.cuEventElapsedTime(milliseconds, (CUevent)start, (CUevent)stop));
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

HS_API hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    HS_CALL(hs_driver.cuStreamBeginCapture_v2((CUstream)stream, (int)mode));
}

/* The capture ends whatever happens. */
HS_API hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    CUgraph recorded = NULL;
    int entered, err = (int)hs_enter_device(__func__, &entered), own = 0;
    if (entered)
        own = (int)hs_driver.cuStreamEndCapture((CUstream)stream, &recorded);
    if (!err)
        *graph = (hipGraph_t)recorded;
    else if (recorded)
        (void)hs_driver.cuGraphDestroy(recorded);
    return hs_leave_device(err ? err : own, entered);
}

HS_API hipError_t hipStreamIsCapturing(hipStream_t stream, int *status)
{
    HS_CALL(hs_driver.cuStreamIsCapturing((CUstream)stream, status));
}

HS_API hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *failed, char *log,
                                      size_t log_size)
{
    (void)failed;
    (void)log;
    (void)log_size;
    HS_CALL(hs_driver.cuGraphInstantiateWithFlags((CUgraphExec *)exec, (CUgraph)graph, 0));
}

HS_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)
{
    HS_CALL(hs_driver.cuGraphInstantiateWithFlags((CUgraphExec *)exec, (CUgraph)graph, flags));
}

HS_API hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
    HS_CALL(hs_driver.cuGraphLaunch((CUgraphExec)exec, (CUstream)stream));
}

HS_API hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
    HS_RELEASE(hs_driver.cuGraphExecDestroy((CUgraphExec)exec));
}

HS_API hipError_t hipGraphDestroy(hipGraph_t graph)
{
    HS_RELEASE(hs_driver.cuGraphDestroy((CUgraph)graph));
}
