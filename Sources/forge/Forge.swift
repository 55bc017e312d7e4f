import ArgumentParser
import ForgeCommands

@main
enum Forge {
    static func main() async {
        await ForgeCommand.main()
    }
}
