public import ForgeFileSystem

/// What a loop over flipped bits has seen.
public struct FlippedBitReport: Hashable, Sendable {
    /// How many bits the file has.
    public internal(set) var bitCount = 0

    /// How many of them the body read; nobody can notice the others.
    public internal(set) var readCount = 0
}

/// Runs `body` once for each bit of a file with that bit the other way round whenever it is read.
///
/// - Parameters:
///   - path: The file.
///   - makeFileSystem: Makes a file system with the file on it.
///   - body: Reads the file through what it is given and throws if it gets a wrong value out of it.
/// - Returns: What was tried.
/// - Throws: ``ConformanceViolation`` with the bit that was flipped and what `body` threw,
///   ``NothingFailed`` if the body read nothing of the file.
@discardableResult
public func forEachFlippedBit(
    of path: POSIXPath, on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void
) throws -> FlippedBitReport {
    var report = FlippedBitReport()
    let sizeInBytes = try makeFileSystem().status(path).sizeInBytes
    for offset in 0..<sizeInBytes {
        for bit in 0..<8 {
            let base = try makeFileSystem()
            let corruption = FileCorruption.flippedBit(offset: offset, bit: bit)
            let rule = FaultRule([.read], matching: .inode(try base.status(path).inode), do: .corrupt(corruption))
            let plan = FaultPlan([rule])
            do {
                try body(FaultingFileSystem(base, plan: plan))
            } catch {
                throw ConformanceViolation("\(path) with \(corruption): \(error)")
            }
            report.bitCount += 1
            report.readCount += plan.firedCount > 0 ? 1 : 0
        }
    }
    guard report.readCount > 0 else { throw NothingFailed(description: "nothing of \(path) was read") }
    return report
}
