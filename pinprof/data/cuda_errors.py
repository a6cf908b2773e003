"""Names of CUDA's error codes.

Source: cudaError (driver_types.h) and CUresult (cuda.h) of CUDA 12 and 13, which share their numbers since CUDA 10.1.
"""

from __future__ import annotations

import re
from types import MappingProxyType

NOT_READY = 600
"""The answer of a query whose work is not done: no error, as cuda.h says."""
UNLOADING = 4
"""The runtime is gone because the process exits: what destructors call then answers this."""
ALREADY_SO = (704, 705, 712, 713)
"""Peer access or registration that is there, or gone, already."""
OUT_OF_MEMORY = 2
NOT_SUPPORTED = 801

_NAMES = MappingProxyType({
    1: "InvalidValue", 2: "MemoryAllocation", 3: "InitializationError", 4: "CudartUnloading", 5: "ProfilerDisabled",
    9: "InvalidConfiguration", 12: "InvalidPitchValue", 13: "InvalidSymbol", 16: "InvalidHostPointer",
    17: "InvalidDevicePointer", 18: "InvalidTexture", 19: "InvalidTextureBinding", 21: "InvalidMemcpyDirection",
    34: "StubLibrary", 35: "InsufficientDriver", 36: "CallRequiresNewerDriver", 37: "InvalidSurface",
    46: "DevicesUnavailable", 52: "MissingConfiguration", 98: "InvalidDeviceFunction", 100: "NoDevice",
    101: "InvalidDevice", 102: "DeviceNotLicensed", 200: "InvalidKernelImage", 201: "DeviceUninitialized",
    205: "MapBufferObjectFailed", 206: "UnmapBufferObjectFailed", 207: "ArrayIsMapped", 208: "AlreadyMapped",
    209: "NoKernelImageForDevice", 210: "AlreadyAcquired", 211: "NotMapped", 212: "NotMappedAsArray",
    213: "NotMappedAsPointer", 214: "ECCUncorrectable", 215: "UnsupportedLimit", 216: "DeviceAlreadyInUse",
    217: "PeerAccessUnsupported", 218: "InvalidPtx", 219: "InvalidGraphicsContext", 220: "NvlinkUncorrectable",
    221: "JitCompilerNotFound", 222: "UnsupportedPtxVersion", 223: "JitCompilationDisabled",
    224: "UnsupportedExecAffinity", 226: "Contained", 300: "InvalidSource", 301: "FileNotFound",
    302: "SharedObjectSymbolNotFound", 303: "SharedObjectInitFailed", 304: "OperatingSystem",
    400: "InvalidResourceHandle", 401: "IllegalState", 402: "LossyQuery", 500: "SymbolNotFound", 600: "NotReady",
    700: "IllegalAddress", 701: "LaunchOutOfResources", 702: "LaunchTimeout", 703: "LaunchIncompatibleTexturing",
    704: "PeerAccessAlreadyEnabled", 705: "PeerAccessNotEnabled", 708: "SetOnActiveProcess", 709: "ContextIsDestroyed",
    710: "Assert", 711: "TooManyPeers", 712: "HostMemoryAlreadyRegistered", 713: "HostMemoryNotRegistered",
    714: "HardwareStackError", 715: "IllegalInstruction", 716: "MisalignedAddress", 717: "InvalidAddressSpace",
    718: "InvalidPc", 719: "LaunchFailure", 720: "CooperativeLaunchTooLarge", 800: "NotPermitted", 801: "NotSupported",
    802: "SystemNotReady", 803: "SystemDriverMismatch", 804: "CompatNotSupportedOnDevice", 805: "MpsConnectionFailed",
    900: "StreamCaptureUnsupported", 901: "StreamCaptureInvalidated", 902: "StreamCaptureMerge",
    903: "StreamCaptureUnmatched", 904: "StreamCaptureUnjoined", 905: "StreamCaptureIsolation",
    906: "StreamCaptureImplicit", 907: "CapturedEvent", 908: "StreamCaptureWrongThread", 909: "Timeout",
    910: "GraphExecUpdateFailure", 999: "Unknown",
})  # fmt: skip
_DRIVER_NAMES = MappingProxyType({
    2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED", 46: "DEVICE_UNAVAILABLE", 200: "INVALID_IMAGE",
    201: "INVALID_CONTEXT", 205: "MAP_FAILED", 206: "UNMAP_FAILED", 209: "NO_BINARY_FOR_GPU",
    214: "ECC_UNCORRECTABLE", 216: "CONTEXT_ALREADY_IN_USE", 400: "INVALID_HANDLE", 500: "NOT_FOUND",
    701: "LAUNCH_OUT_OF_RESOURCES", 708: "PRIMARY_CONTEXT_ACTIVE", 719: "LAUNCH_FAILED",
})  # fmt: skip
"""Where the driver's name is another one."""


def error_name(call: str, status: int) -> str:
    """A return value's name in the call's interface: `cudaErrorMemoryAllocation`, `CUDA_ERROR_OUT_OF_MEMORY`."""
    name = _NAMES.get(status)
    if name is None:
        return f"error {status}"
    if call.startswith("cuda"):
        return f"cudaError{name}"
    return f"CUDA_ERROR_{_DRIVER_NAMES.get(status) or re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).upper()}"
