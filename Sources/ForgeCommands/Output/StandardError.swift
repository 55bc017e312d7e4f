import SystemPackage

/// Standard error; a message that cannot be written is dropped.
enum StandardError {
    static func write(_ text: String) {
        do {
            _ = try FileDescriptor.standardError.writeAll(text.utf8)
        } catch {
            // The exit status still reports the failure.
        }
    }
}
