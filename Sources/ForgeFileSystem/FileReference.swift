/// What an attribute belongs to: an open file, or whatever a path leads to.
public enum FileReference: Hashable, Sendable {
    /// The file that is open as this descriptor.
    case descriptor(Descriptor)

    /// The file at a path, relative to an open directory; the link itself if links are not followed.
    case path(POSIXPath, at: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true)
}
