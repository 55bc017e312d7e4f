import ForgeFileSystem
import SystemPackage

extension FileStoreError {
    /// The error of a store that a failed file system operation amounts to.
    init(_ error: FileSystemError, _ operation: Operation, key: String) {
        self.init(Code(error, operation), operation, key: key, underlying: error)
    }

    /// The error of a store whose root cannot be opened: nothing is known of any key.
    init(opening error: FileSystemError, _ operation: Operation, key: String) {
        let code: Code =
            switch error.errno {
            case _ where error.isLocked: .unavailable(.locked)
            case .permissionDenied, .notPermitted, .readOnlyFileSystem: .notPermitted
            case .noSpace, .diskQuotaExceeded: .noSpace
            case .resourceBusy: .unsafe(.anotherStore)
            default: .unavailable(.inputOutput)
            }
        self.init(code, operation, key: key, underlying: error)
    }
}

extension FileStoreError.Code {
    init(_ error: FileSystemError, _ operation: FileStoreError.Operation) {
        guard !error.isEffectVisible else {
            self = .durabilityUnknown
            return
        }
        guard !error.isLocked else {
            self = .unavailable(.locked)
            return
        }
        self = Self.special(error, operation) ?? Self.codes[error.errno] ?? .unavailable(.inputOutput)
    }

    private static let codes: [Errno: FileStoreError.Code] = [
        .noSuchFileOrDirectory: .notFound,
        .fileExists: .alreadyExists,
        .isDirectory: .isDirectory,
        .notDirectory: .notDirectory,
        .noSpace: .noSpace,
        .diskQuotaExceeded: .noSpace,
        .permissionDenied: .notPermitted,
        .notPermitted: .notPermitted,
        .readOnlyFileSystem: .notPermitted,
        .fileTooLarge: .tooLarge,
        .tooManySymbolicLinkLevels: .unsafe(.symbolicLink),
        .noSuchAddressOrDevice: .unsafe(.notRegular),
        .operationNotSupportedByDevice: .unsafe(.notRegular),
        .fileNameTooLong: .invalidKey(.componentTooLong),
    ]

    /// Error numbers that mean something else in one place.
    private static func special(
        _ error: FileSystemError, _ operation: FileStoreError.Operation
    ) -> FileStoreError.Code? {
        switch (error.operation, error.errno, operation) {
        case (.read, .tooManyLinks, _): .unsafe(.hardLink)
        case (.read, .notSupported, _): .unsafe(.notRegular)
        case (.open, .resourceBusy, _): .unsafe(.anotherStore)
        case (.removeDirectory, .directoryNotEmpty, .deleteDirectory): .foreignContent
        // A directory was wanted and something else has its name.
        case (_, .fileExists, .createDirectory): .notDirectory
        // Every parent was created, and another program removes it again and again.
        case (_, .noSuchFileOrDirectory, .save), (_, .noSuchFileOrDirectory, .createDirectory),
            (_, .noSuchFileOrDirectory, .copy), (_, .noSuchFileOrDirectory, .move):
            .unavailable(.inputOutput)
        default: nil
        }
    }
}
