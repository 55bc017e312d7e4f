import Dispatch
import ForgeCommands

@main
enum Forge {
    /// Not asynchronous: the executor of an asynchronous `main` opens descriptors before its first line.
    static func main() {
        StandardDescriptors.reserve()
        StandardDescriptors.ignoreBrokenPipes()
        Interruption.install()
        ArgumentEncoding.requireUTF8()
        Task { await ForgeCommand.runAndExit() }
        dispatchMain()
    }
}
