import Synchronization
import SystemPackage

/// Support for crash explorers: the tree as a value, and a recording of every later change.
extension InMemoryFileSystem {
    /// All named files as all processes see them now.
    package var image: DiskImage {
        tree.state.withLock { $0.image }
    }

    /// The number of a file in images and effects, which is never used for another one and survives a crash; the number in
    /// its status is reused.
    package func identity(of file: FileReference) throws(FileSystemError) -> UInt64 {
        try perform(.status, file.path) { (state) throws(Errno) in state.inodes[try state.inode(of: file)].number }
    }

    /// Discards the recording and starts a new one, for all processes; `reset()` ends it.
    package func startRecordingEffects() {
        tree.state.withLock { $0.recording = EffectRecording() }
    }

    /// Returns and clears the recording, which continues.
    package func takeEffects() -> [RecordedEffect] {
        tree.state.withLock { state in
            let effects = state.recording?.effects ?? []
            state.recording?.effects = []
            return effects
        }
    }

    /// Records a mark between earlier and later changes.
    package func recordMark(_ number: Int) {
        tree.state.withLock { $0.record(.mark(number)) }
    }

    /// Records a failed synchronisation; called by the wrapper that injects the failure.
    ///
    /// The data that it would have covered stays undetermined: later successes do not cover it.
    package func recordFailedSynchronization(
        of descriptor: Descriptor, _ level: SyncLevel = .full
    ) throws(FileSystemError) {
        try perform(.synchronize) { (state) throws(Errno) in
            state.failToSynchronize(state.openFiles[try state.openFile(descriptor)].inode, level)
        }
    }
}
