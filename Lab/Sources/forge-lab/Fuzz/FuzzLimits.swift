/// The rules of the host that differ from the model; the fuzzer avoids them, and uses the host's names.
struct FuzzLimits: Sendable {
    /// Whether paths must stay below their start by their form alone.
    var isConfined = false
    /// Whether calls can be made as several users.
    var playsUsers = true
    /// Whether reads update the access time as by default on Linux (`relatime`).
    var comparesAccess = true
    /// Whether the mode of a path can be set without following a link at its end.
    var changesLinkModes = true
    /// Whether directories must not be sticky, because the system protects shared ones (`protected_symlinks`).
    var avoidsSharedStickyDirectories = false
    /// Whether opening a device node without a device fails with the error for a missing device.
    var opensDevices = false
    /// The maximum file size, nil where it differs from ext4; no offset beyond a terabyte is tried then.
    var maximumFileSize: Int64? = 17_592_186_040_320
    var owners: [UInt32] = [0, 1234, 1235]
    var groups: [UInt32] = [0, 2345, 3456]
}
