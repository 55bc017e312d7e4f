/// The file of an attribute call: an open file, or the file at a path.
public enum FileReference: Hashable, Sendable {
    /// The open file of this descriptor.
    case descriptor(Descriptor)

    /// The file at a path, relative to an open directory; the link itself if links are not followed.
    case path(POSIXPath, at: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true)
}
