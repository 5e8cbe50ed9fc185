/* SPDX-License-Identifier: MIT OR Unlicense
   common.h: what every example shares, so that an example itself shows only the library.

       arguments.h   options, --help, progress, result lines, checked calls
       pictures.h    images, PNG and animated PNG, 2D drawing, plots
       renderer.h    a small renderer for 3D: meshes, water, smoke
       meshes.h      OBJ and VTK files

   An example in short:

       static const ex_about about = {
           .name = "balls",
           .what = "Balls of several densities in a tank.",
           .size = 64,
           .frames = 120,
           .keys = {EX_NUMBER("density", "kg/m^3", "of the ball", "500", "1e-3 to 1e7")},
       };
       ex_args args;
       ex_begin(&args, argc, argv, &about);

       ex_need(fsi_world_init(&world, &desc));
       int frame;
       for (frame = 0; frame < args.frames && ex_fine(); frame++) {
           ex_try(fsi_world_step(&world, dt, NULL));
           if (args.out)
               draw(&args, &world);    (draws into an ex_image and hands it to ex_frame)
           ex_progress(&args, frame);
       }

       ex_result("depth", "%.4f", depth);
       return ex_end(&args, frame, ex_fine()); */
#ifndef COMMON_H
#define COMMON_H
#include "arguments.h"
#include "pictures.h"
#include "renderer.h"
#include "meshes.h"
#endif
