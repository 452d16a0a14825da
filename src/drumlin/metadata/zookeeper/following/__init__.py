"""What others write into ZooKeeper, found by watches and taken into the image."""
