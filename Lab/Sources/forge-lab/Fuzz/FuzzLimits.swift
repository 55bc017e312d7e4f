/// What the fuzzer leaves out because the place that it runs in has other rules, and whose names it uses.
struct FuzzLimits: Sendable {
    /// Whether paths must stay below their start by their form alone.
    var isConfined = false
    /// Whether it can act as several users.
    var playsUsers = true
    /// Whether reading moves the time of access as by default on Linux (`relatime`).
    var comparesAccess = true
    /// Whether the mode of a path can be set without following a link at its end.
    var changesLinkModes = true
    /// Whether no directory may be sticky, because the system guards those that are shared (`protected_symlinks`).
    var avoidsSharedStickyDirectories = false
    /// Whether a device node can be opened as far as telling that there is no such device.
    var opensDevices = false
    /// How long a file may grow, nil where that is not as on ext4; nothing beyond a terabyte is tried then.
    var maximumFileSize: Int64? = 17_592_186_040_320
    var owners: [UInt32] = [0, 1234, 1235]
    var groups: [UInt32] = [0, 2345, 3456]
}
