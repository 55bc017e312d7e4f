public import ForgeFileStore

extension ConformanceChecks {
    /// The promises of a file store.
    ///
    /// The checks for copying and moving create their source files in the temporary directory and remove them.
    public static let fileStore: [ConformanceCheck<any FileStoring>] =
        fileSaving + fileMetadata + fileListing + fileDeleting + fileKeys + fileValues + fileSources
        + fileExchangedSources + fileConcurrency
}

/// A check of a file store.
typealias FileStoreCheck = ConformanceCheck<any FileStoring>

/// Throws a violation unless `body` throws a ``FileStoreError`` with this code, which is returned.
@discardableResult
func expectCode<Result>(
    _ code: FileStoreError.Code, _ what: String, file: StaticString = #fileID, line: UInt = #line,
    _ body: () async throws -> Result
) async throws -> FileStoreError {
    let error = try await expectError(FileStoreError.self, "\(what): \(code)", file: file, line: line, body)
    try expectEqual(error.code, code, "\(what): the code of \(error)", file: file, line: line)
    return error
}
